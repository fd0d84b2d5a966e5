package entitlementsync;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.junit.runner.Description;
import org.junit.runner.JUnitCore;
import org.junit.runner.Request;
import org.junit.runner.Result;
import org.junit.runner.notification.Failure;

/** Runs the tests of classes, several at once because most wait for a server, and prints a line for each test. */
public final class TestRun {
    private static final int THREADS = 4;

    private TestRun() {}

    public static void main(String[] classes) throws Exception {
        List<Description> tests = new ArrayList<>();
        for (String name : classes) addTests(Request.aClass(Class.forName(name)).getRunner().getDescription(), tests);
        ExecutorService threads = Executors.newFixedThreadPool(THREADS);
        List<Future<Boolean>> outcomes = new ArrayList<>();
        for (Description test : tests) outcomes.add(threads.submit(() -> isPassed(test)));
        int failed = 0;
        for (Future<Boolean> outcome : outcomes) if (!outcome.get()) failed++;
        threads.shutdown();
        System.out.println(tests.size() + " tests ran, " + failed + " failed");
        System.exit(tests.isEmpty() || failed > 0 ? 1 : 0);
    }

    private static void addTests(Description description, List<Description> tests) {
        if (description.isTest()) tests.add(description);
        for (Description child : description.getChildren()) addTests(child, tests);
    }

    private static boolean isPassed(Description test) {
        Result result = new JUnitCore().run(Request.aClass(test.getTestClass()).filterWith(test));
        // A filter that matches nothing is a failure of JUnit, so one test ran.
        StringBuilder line = new StringBuilder(result.wasSuccessful() ? "passed" : "FAILED");
        line.append(String.format(" %5.1f s  %s", result.getRunTime() / 1_000.0, test.getDisplayName()));
        for (Failure failure : result.getFailures()) line.append('\n').append(failure.getTrace());
        System.out.println(line);
        return result.wasSuccessful() && result.getRunCount() == 1;
    }
}
