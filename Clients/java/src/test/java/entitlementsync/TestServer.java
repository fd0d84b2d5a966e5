package entitlementsync;

import java.io.BufferedReader;
import java.io.Closeable;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** A {@code syncd serve} of its own, with a store in a temporary folder. */
final class TestServer implements Closeable {
    static final String AT = "2027-06-01T00:00:00Z";
    static final Path SCENARIOS = Paths.get(property("scenarios"));

    final Path folder;
    /** The public key of the root; null without one. */
    final String root;
    String url;
    private final List<String> options;
    private Process process;

    private TestServer(boolean isSigned, String... options) throws IOException {
        folder = Files.createTempDirectory("entitlementsync-java");
        this.options = new ArrayList<>(Arrays.asList(options));
        if (isSigned) {
            String file = folder.resolve("root.pem").toString();
            root = firstLine(syncd("keys", "root", file, "--create"));
            this.options.addAll(Arrays.asList("--root-key", file));
        } else {
            root = null;
        }
    }

    /** Starts a server with the catalogue of the scenarios. */
    static TestServer start(String... options) throws IOException {
        return start(false, AT, "catalog.json", options);
    }

    /** Starts a server that signs grants. */
    static TestServer startSigned(String... options) throws IOException {
        return start(true, AT, "catalog.json", options);
    }

    static TestServer start(boolean isSigned, String at, String catalog, String... options) throws IOException {
        TestServer server = new TestServer(isSigned, options);
        server.options.addAll(Arrays.asList("--catalog", SCENARIOS.resolve(catalog).toString()));
        server.run(at);
        return server;
    }

    /** Adds options for the next start. */
    void addOptions(String... more) {
        options.addAll(Arrays.asList(more));
    }

    /** Starts the server, again at the same address if it ran before. */
    void run(String at) throws IOException {
        String address = url == null ? "127.0.0.1:0" : "127.0.0.1:" + URI.create(url).getPort();
        List<String> command = new ArrayList<>(Arrays.asList(
            "serve", "--store", "sqlite:" + folder.resolve("store.sqlite"), "--listen", address, "--name",
            "http://shop.test", "--password-cost", "10", "--log-level", "error", "--at", at));
        command.addAll(options);
        process = syncd(command.toArray(new String[0]));
        String line = firstLine(process);
        if (line == null || !line.startsWith("listening on ")) throw new IOException("syncd did not start: " + line);
        url = line.substring("listening on ".length());
    }

    void stop() throws IOException {
        process.destroy();
        try {
            if (!process.waitFor(60, TimeUnit.SECONDS)) throw new IOException("syncd did not stop");
        } catch (InterruptedException error) {
            throw new IOException(error);
        }
    }

    @Override
    public void close() throws IOException {
        stop();
        delete(folder);
    }

    /** Records a purchase beside the running server, as an operator does. */
    void purchase(String account, String product, String transaction, String date) throws IOException {
        Process record = syncd(
            "record", "purchase", product, "--transaction", transaction, "--date", date, "--local",
            "sqlite:" + folder.resolve("store.sqlite"), "--account", account, "--at", AT, "--catalog",
            SCENARIOS.resolve("catalog.json").toString());
        if (firstLine(record) == null) throw new IOException("syncd record failed");
    }

    static void delete(Path folder) throws IOException {
        try (Stream<Path> files = Files.walk(folder)) {
            for (Path file : files.sorted((a, b) -> b.compareTo(a)).collect(Collectors.toList())) Files.delete(file);
        }
    }

    static String property(String name) {
        String value = System.getProperty(name);
        if (value == null) throw new IllegalStateException("run the tests by Clients/java/build test: -D" + name);
        return value;
    }

    /** The command line of another Java process with the classes of this one. */
    static List<String> java(String... arguments) {
        List<String> command = new ArrayList<>(Arrays.asList(
            System.getProperty("java.home") + "/bin/java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp",
            System.getProperty("java.class.path")));
        command.addAll(Arrays.asList(arguments));
        return command;
    }

    private static Process syncd(String... arguments) throws IOException {
        List<String> command = new ArrayList<>();
        command.add(new File(property("syncd")).getAbsolutePath());
        command.addAll(Arrays.asList(arguments));
        return new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
    }

    private static String firstLine(Process process) throws IOException {
        return new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8)).readLine();
    }
}
