package entitlementsync;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertTrue;
import static org.junit.Assert.fail;

import entitlementsync.ShopException.Kind;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.Test;
import org.junit.runner.RunWith;
import org.junit.runners.Parameterized;

/** Runs the scenarios that all clients share: see Tests/ClientScenarios/README.md. */
@RunWith(Parameterized.class)
public class ScenarioTest {
    private static final Set<String> SCENARIO_MEMBERS = setOf("about at catalog policy ownership signed only steps");
    private static final Set<String> ACTIONS = setOf("call clock link reopen server");
    private static final Set<String> STEP_MEMBERS = setOf(
        "call clock link reopen server device path at name password adopt everywhere item entitlement id expect error "
            + "only");

    private final Path file;

    private static Set<String> setOf(String names) {
        return new TreeSet<>(Arrays.asList(names.split(" ")));
    }

    public ScenarioTest(Path file, String name) {
        this.file = file;
    }

    @Parameterized.Parameters(name = "{1}")
    public static List<Object[]> scenarios() throws IOException {
        try (Stream<Path> files = Files.list(TestServer.SCENARIOS)) {
            List<Object[]> all = files.filter(file -> file.getFileName().toString().matches("[0-9]+-.*\\.json"))
                .sorted().map(file -> new Object[] {file, file.getFileName().toString()})
                .collect(Collectors.toList());
            assertTrue("there are scenarios in " + TestServer.SCENARIOS, !all.isEmpty());
            return all;
        }
    }

    @Test
    public void behavesAsTheScenarioSays() throws Exception {
        JsonObject scenario = Json.object(Files.readAllBytes(file), Kind.OTHER);
        checkMembers(scenario, SCENARIO_MEMBERS);
        if (!concernsJava(scenario)) return;
        String catalog = scenario.optionalText("catalog");
        String policy = scenario.optionalText("policy");
        String ownership = scenario.optionalText("ownership");
        boolean isSigned = Boolean.TRUE.equals(scenario.members().get("signed"));
        String at = scenario.text("at");
        SetClock time = new SetClock(at);
        Map<String, Runner> runners = new TreeMap<>();
        try (TestServer server = TestServer.start(
            isSigned, at, catalog == null ? "catalog.json" : catalog, "--policy", policy == null ? "trusted" : policy,
            "--ownership", ownership == null ? "keepWithFirst" : ownership)) {
            int number = 0;
            for (JsonObject step : scenario.objects("steps")) {
                number++;
                if (!concernsJava(step)) continue;
                try {
                    checkMembers(step, STEP_MEMBERS);
                    assertEquals("actions", 1, ACTIONS.stream().filter(step::has).count());
                    if (step.has("server")) {
                        if (step.text("server").equals("stop")) server.stop();
                        else if (step.text("server").equals("start")) {
                            server.run(step.has("at") ? step.text("at") : time.toString());
                        } else fail("unknown action of the server");
                    } else {
                        String name = step.text("device");
                        if (!runners.containsKey(name)) runners.put(name, new Runner(server, name, at));
                        runners.get(name).run(step);
                    }
                } catch (Exception | AssertionError error) {
                    throw new AssertionError("step " + number + " " + Json.text(step) + ": " + error, error);
                }
            }
        } finally {
            for (Runner runner : runners.values()) runner.device.close();
        }
    }

    /** Fails for members that this test does not know, so that no later scenario is run in part. */
    private static void checkMembers(JsonObject object, Set<String> known) {
        Set<String> unknown = new TreeSet<>(object.members().keySet());
        unknown.removeAll(known);
        assertTrue("unknown members " + unknown, unknown.isEmpty());
    }

    private static boolean concernsJava(JsonObject object) {
        Object only = object.members().get("only");
        return only == null || ((List<?>) only).contains("java");
    }

    /** A device that runs steps. */
    private static final class Runner {
        private final TestDevice device;

        Runner(TestServer server, String name, String at) throws ShopException {
            device = new TestDevice(server, name, at);
        }

        void run(JsonObject step) throws Exception {
            if (step.has("clock")) {
                device.clock.set(step.text("clock"));
            } else if (step.has("link")) {
                device.link.fail(step.text("link"), step.optionalText("path"));
            } else if (step.has("reopen")) {
                device.reopen();
            } else {
                check(step);
            }
        }

        private void check(JsonObject step) throws Exception {
            JsonObject result;
            try {
                result = call(step);
            } catch (ShopException error) {
                assertEquals(error.getMessage(), step.optionalText("error"), error.getKind().getName());
                assertTrue(error.getUserMessage().endsWith("."));
                return;
            }
            if (step.has("error")) fail("no error, but " + Json.text(result));
            JsonObject expected = step.optionalObject("expect");
            if (expected == null) return;
            for (String name : expected.members().keySet()) {
                assertTrue(name + " in " + Json.text(result), result.has(name));
                Object value = expected.members().get(name);
                if (name.equals("until") && value != null) value = Instant.parse((String) value).toString();
                assertEquals(name + " in " + Json.text(result) + ", failure: " + device.shop.getFailure(), value,
                    result.members().get(name));
            }
        }

        private JsonObject call(JsonObject step) throws Exception {
            Shop.EarlierPurchases earlier = Boolean.TRUE.equals(step.members().get("adopt"))
                ? Shop.EarlierPurchases.ADOPT : Shop.EarlierPurchases.LEAVE_ON_DEVICE;
            JsonObject result = new JsonObject();
            Shop shop = device.shop;
            switch (step.text("call")) {
                case "signUp":
                    shop.signUp(step.text("name"), step.text("password"), earlier);
                    return result;
                case "logIn":
                    shop.logIn(step.text("name"), step.text("password"), earlier);
                    return result;
                case "logOut":
                    if (Boolean.TRUE.equals(step.members().get("everywhere"))) shop.logOutEverywhere();
                    else shop.logOut();
                    return result;
                case "deleteAccount":
                    shop.deleteAccount(step.text("password"));
                    return result;
                case "account": return result.put("name", shop.getAccount());
                case "report": return result.put("recorded", shop.report(new Item(step.object("item"))));
                case "refresh":
                    shop.refresh();
                    return result;
                case "restore":
                    shop.restore();
                    return result;
                case "access": {
                    Access access = shop.access(step.text("entitlement"));
                    result.put("until", access.getUntil() == null ? null : access.getUntil().toString());
                    if (access.getUnits() != null) result.put("units", access.getUnits());
                    return decision(result, access.isGranted(), access.getDenial());
                }
                case "use": {
                    Use use = shop.use(step.text("entitlement"), step.text("id"));
                    return decision(result.put("spent", (long) use.getSpent()), use.isGranted(), use.getDenial());
                }
                case "waiting": return result.put("count", (long) shop.getWaitingCount());
                default: throw new AssertionError("unknown call");
            }
        }

        private static JsonObject decision(JsonObject result, boolean isGranted, Access.Denial denial) {
            result.put("granted", isGranted);
            return isGranted ? result : result.put("reason", denial.getName());
        }
    }
}
