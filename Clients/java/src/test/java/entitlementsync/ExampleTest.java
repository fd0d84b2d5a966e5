package entitlementsync;

import static org.junit.Assert.assertEquals;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.junit.After;
import org.junit.Before;
import org.junit.Test;

/** Runs the example in Examples/java-shop as a user does: each command is a process. */
public class ExampleTest {
    private TestServer server;

    @Before
    public void start() throws IOException {
        server = TestServer.start();
    }

    @After
    public void stop() throws IOException {
        server.close();
    }

    /** Runs a command of the shop. Returns its exit status, and its output with that of errors. */
    private String shop(String device, String... command) throws Exception {
        return shop(Collections.singletonMap("SHOP_PASSWORD", "correct horse"), device, command);
    }

    private String shop(Map<String, String> environment, String device, String... command) throws Exception {
        List<String> line = TestServer.java("ConsoleShop", server.url, server.folder.resolve(device).toString());
        line.addAll(Arrays.asList(command));
        Path output = server.folder.resolve("output");
        ProcessBuilder builder = new ProcessBuilder(line).redirectErrorStream(true).redirectOutput(output.toFile());
        builder.environment().putAll(environment);
        int status = builder.start().waitFor();
        return status + " " + new String(Files.readAllBytes(output), StandardCharsets.UTF_8);
    }

    @Test
    public void aPurchaseOnThePhoneIsAvailableOnTheTablet() throws Exception {
        assertEquals("0 bought: pack, waits for the server\n", shop("phone", "buy", "pack", "order-1"));
        assertEquals("0 signed up: alice, with 8 recovery codes\n", shop("phone", "sign-up", "alice"));
        assertEquals("0 logged in: alice\n", shop("tablet", "log-in", "alice"));
        assertEquals("0 available\n", shop("tablet", "has", "random"));
        assertEquals("0 used\n", shop("tablet", "use", "random"));
        assertEquals(
            "0 logged in: alice\nnights  notPurchased\nowl  notPurchased\nrandom  granted, units left: 2\n",
            shop("phone", "show"));
        String watched = shop("phone", "watch", "random");
        assertEquals("0 {nights=notPurchased, owl=notPurchased, random=granted, units left: 2}\n", watched);
        assertEquals("0 restored\n", shop("phone", "restore"));
        assertEquals("0 logged out\n", shop("phone", "log-out"));
        assertEquals("0 not available: logInNeeded\n", shop("phone", "has", "random"));
    }

    @Test
    public void anErrorHasALineForTheUserAndOneForTheLog() throws Exception {
        assertEquals(
            "1 The name or the password is wrong. Check both, and try again.\n"
                + "wrongPassword: name or password is wrong\n",
            shop("phone", "log-in", "nobody"));
        assertEquals("2 usage: ConsoleShop SERVER FOLDER COMMAND", shop("phone", "sell").split("\n")[0]);
        assertEquals(
            "2 SHOP_ROOT: a root key must be 32 bytes in base64url, not abc\n",
            shop(Collections.singletonMap("SHOP_ROOT", "abc"), "phone", "show"));
        assertEquals(
            "2 SHOP_PASSWORD is not set: set it to the password of the account\n",
            shop(Collections.emptyMap(), "phone", "log-in", "nobody"));
    }
}
