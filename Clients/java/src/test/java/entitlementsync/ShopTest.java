package entitlementsync;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertNull;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import com.sun.net.httpserver.HttpServer;
import com.sun.net.httpserver.HttpsConfigurator;
import com.sun.net.httpserver.HttpsServer;
import entitlementsync.Access.Denial;
import entitlementsync.Shop.EarlierPurchases;
import entitlementsync.ShopException.Kind;
import java.io.Closeable;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.KeyStore;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import org.junit.After;
import org.junit.Test;

public class ShopTest {
    private static final String PASSWORD = "correct horse";
    private final List<Closeable> opened = new ArrayList<>();

    @After
    public void close() throws IOException {
        for (int i = opened.size() - 1; i >= 0; i--) opened.get(i).close();
    }

    private TestServer server() throws IOException {
        return closing(TestServer.start());
    }

    private <Part extends Closeable> Part closing(Part part) {
        opened.add(part);
        return part;
    }

    private TestDevice device(TestServer server, String name) throws ShopException {
        return closing(new TestDevice(server, name));
    }

    private static Kind kindOf(org.junit.function.ThrowingRunnable call) {
        return assertThrows(ShopException.class, call).getKind();
    }

    // Offline.

    @Test
    public void aGrantCountsUntilItsEndAndNotASecondLonger() throws Exception {
        TestServer server = closing(TestServer.startSigned("--grant-days", "7"));
        TestDevice phone = device(server, "phone");
        phone.shop.signUp("ann", PASSWORD, EarlierPurchases.ADOPT);
        server.purchase("ann", "owl", "o1", "2027-05-31T00:00:00Z");
        phone.shop.refresh();
        State state = phone.shop.store.state();
        long end = Grant.verified(
            state.grant(), Trust.signedBy(server.root), state, "production").expires;
        phone.link.isDown = true;
        phone.clock.set(Instant.ofEpochMilli(end - 60_000).toString());
        assertEquals(Access.granted(null, null), phone.shop.access("owl"));
        phone.clock.set(Instant.ofEpochMilli(end).toString());
        assertEquals(Denial.UNVERIFIED, phone.shop.access("owl").getDenial());
        phone.clock.set(TestServer.AT);
        assertEquals(Denial.UNVERIFIED, phone.shop.access("owl").getDenial());
        phone.reopen();
        assertEquals(Denial.UNVERIFIED, phone.shop.access("owl").getDenial());
        phone.link.isDown = false;
        phone.shop.refresh();
        assertTrue(phone.shop.access("owl").isGranted());
    }

    @Test
    public void aPeriodEndsWithinItsGrant() throws Exception {
        TestServer server = closing(TestServer.startSigned());
        TestDevice phone = device(server, "phone");
        phone.shop.signUp("ann", PASSWORD, EarlierPurchases.ADOPT);
        server.purchase("ann", "month", "m1", "2027-05-04T00:00:00Z");
        phone.shop.refresh();
        Instant end = Instant.parse("2027-06-03T00:00:00Z");
        assertEquals(Access.granted(end, null), phone.shop.access("nights"));
        phone.link.isDown = true;
        phone.clock.set("2027-06-03T00:00:00Z");
        assertEquals(Access.denied(Denial.EXPIRED, end), phone.shop.access("nights"));
        phone.clock.set("2027-06-02T00:00:00Z");
        phone.reopen();
        assertEquals(Access.denied(Denial.EXPIRED, end), phone.shop.access("nights"));
    }

    @Test
    public void withPinnedRootsAnEditedAnswerOfTheServerGrantsNothing() throws Exception {
        TestServer server = closing(TestServer.startSigned());
        TestDevice phone = device(server, "phone");
        phone.shop.signUp("ann", PASSWORD, EarlierPurchases.ADOPT);
        Path file = phone.folder.resolve(State.NAME);
        String text = new String(Files.readAllBytes(file), StandardCharsets.UTF_8);
        String edited = text.replace(
            "\"owl\":{\"granted\":false,\"reason\":\"notPurchased\",\"date\":null}",
            "\"owl\":{\"granted\":true,\"until\":null}");
        assertFalse(edited.equals(text));
        Files.write(file, edited.getBytes(StandardCharsets.UTF_8));
        assertEquals(Denial.UNVERIFIED, phone.shop.access("owl").getDenial());
        String refused = "\"granted\":false,\"reason\":\"refusedByServer\",\"detail\":\"too old\"";
        Files.write(file, text.replaceFirst(
            "\"granted\":false,\"reason\":\"notPurchased\"", refused).getBytes(StandardCharsets.UTF_8));
        Access denied = phone.shop.getAllAccess().values().stream()
            .filter(each -> each.getDenial() == Denial.REFUSED_BY_SERVER).findFirst().get();
        assertEquals("too old", denied.getDetail());
    }

    @Test
    public void withoutANetworkAtTheFirstStartNothingIsGrantedAndEverythingSaysWhy() throws Exception {
        TestDevice phone = device(server(), "phone");
        phone.link.isDown = true;
        assertEquals(Denial.LOG_IN_NEEDED, phone.shop.access("owl").getDenial());
        assertEquals(Kind.OFFLINE, kindOf(() -> phone.shop.signUp("ann", PASSWORD, EarlierPurchases.ADOPT)));
        assertEquals(Kind.OFFLINE, kindOf(() -> phone.shop.logIn("ann", PASSWORD, EarlierPurchases.ADOPT)));
        assertEquals(Kind.LOG_IN_NEEDED, kindOf(() -> phone.shop.refresh()));
        assertNull(phone.shop.getAccount());
    }

    @Test
    public void aClockThatIsSetBackWhileTheAppRunsDelaysNoEnd() throws Exception {
        TestServer server = server();
        TestDevice phone = device(server, "phone");
        phone.shop.signUp("ann", PASSWORD, EarlierPurchases.ADOPT);
        server.purchase("ann", "month", "m1", "2027-05-04T00:00:00Z");
        phone.shop.refresh();
        phone.link.isDown = true;
        phone.clock.set("2027-06-02T23:59:59Z");
        assertTrue(phone.shop.access("nights").isGranted());
        phone.clock.set("2027-06-01T00:00:00Z");
        long limit = System.nanoTime() + 60_000_000_000L;
        while (phone.shop.access("nights").isGranted()) assertTrue("access has not ended", System.nanoTime() < limit);
        assertEquals(Denial.EXPIRED, phone.shop.access("nights").getDenial());
        phone.link.isDown = false;
        phone.shop.refresh();
        assertTrue("the server has corrected the clock", phone.shop.access("nights").isGranted());
    }

    @Test
    public void anEndThatOnlyAListOfAllAccessHasShownIsNotRevived() throws Exception {
        TestServer server = server();
        TestDevice phone = device(server, "phone");
        phone.shop.signUp("ann", PASSWORD, EarlierPurchases.ADOPT);
        server.purchase("ann", "month", "m1", "2027-05-04T00:00:00Z");
        phone.shop.refresh();
        phone.link.isDown = true;
        phone.clock.set("2027-06-02T23:59:50Z");
        assertTrue(phone.shop.getAllAccess().get("nights").isGranted());
        phone.clock.set("2027-06-03T00:00:01Z");
        assertEquals(Denial.EXPIRED, phone.shop.getAllAccess().get("nights").getDenial());
        phone.clock.set("2027-06-02T23:00:00Z");
        phone.reopen();
        assertEquals(Denial.EXPIRED, phone.shop.access("nights").getDenial());
    }

    // Sessions.

    @Test
    public void aLostAnswerToARefreshOfTheTokensEndsNoSession() throws Exception {
        TestDevice phone = device(server(), "phone");
        phone.shop.signUp("ann", PASSWORD, EarlierPurchases.ADOPT);
        phone.shop.store.update((state, outbox) -> state.tokens().put("access", "expired"));
        phone.link.fail("lose-answer", "/v1/sessions");
        assertEquals(Kind.OFFLINE, kindOf(() -> phone.shop.refresh()));
        phone.shop.refresh();
        assertEquals("ann", phone.shop.getAccount());
    }

    @Test
    public void aLogOutWithAnExpiredTokenEndsTheSessionAtTheServer() throws Exception {
        TestDevice phone = device(server(), "phone");
        phone.shop.signUp("ann", PASSWORD, EarlierPurchases.ADOPT);
        phone.shop.store.update((state, outbox) -> state.tokens().put("access", "expired"));
        phone.shop.logOut();
        assertNull(phone.shop.getAccount());
        assertEquals(1, Link.count(phone.link.answers, "204 DELETE /v1/sessions"));
        phone.shop.logOut();
        assertNull("a second log-out does nothing", phone.shop.getFailure());
    }

    @Test
    public void tokensAreRefreshedOnceForAllCallsInAllProcesses() throws Exception {
        TestDevice phone = device(server(), "phone");
        phone.shop.signUp("ann", PASSWORD, EarlierPurchases.ADOPT);
        phone.shop.store.update((state, outbox) -> state.tokens().put("access", "expired"));
        Shop other = closing(phone.open());
        ExecutorService threads = Executors.newFixedThreadPool(8);
        List<Callable<Void>> calls = new ArrayList<>();
        for (int i = 0; i < 8; i++) {
            Shop shop = i % 2 == 0 ? phone.shop : other;
            calls.add(() -> {
                shop.refresh();
                return null;
            });
        }
        for (Future<Void> call : threads.invokeAll(calls)) call.get();
        threads.shutdown();
        assertEquals(1, phone.link.count("POST /v1/sessions"));
        assertEquals(2, phone.shop.store.state().tokens().number("number"));
    }

    @Test
    public void anAnswerAboutAnEarlierAccountIsDropped() throws Exception {
        TestServer server = server();
        TestDevice phone = device(server, "phone");
        phone.shop.signUp("bob", "battery staple", EarlierPurchases.ADOPT);
        phone.shop.signUp("ann", PASSWORD, EarlierPurchases.ADOPT);
        server.purchase("ann", "owl", "o1", "2027-05-31T00:00:00Z");
        phone.link.hold("/v1/entitlements");
        ExecutorService thread = Executors.newSingleThreadExecutor();
        Future<Void> refresh = thread.submit(() -> {
            phone.shop.refresh();
            return null;
        });
        phone.link.awaitHeld();
        Shop other = closing(Shop.open(
            server.url, new FileStorage(phone.folder.toFile()), Trust.server(),
            TestDevice.options(new UrlTransport(), phone.clock)));
        other.logIn("bob", "battery staple", EarlierPurchases.ADOPT);
        phone.link.open();
        ExecutionException error = assertThrows(ExecutionException.class, refresh::get);
        thread.shutdown();
        assertEquals(Kind.CANCELLED, ((ShopException) error.getCause()).getKind());
        assertEquals("bob", phone.shop.getAccount());
        assertEquals(Denial.NOT_PURCHASED, phone.shop.access("owl").getDenial());
    }

    @Test
    public void aLogOutLeavesNothingOfTheAccountAndForgetsItsTokens() throws Exception {
        TestServer server = server();
        TestDevice phone = device(server, "phone");
        phone.shop.signUp("ann", PASSWORD, EarlierPurchases.ADOPT);
        server.purchase("ann", "owl", "o1", "2027-05-31T00:00:00Z");
        phone.shop.refresh();
        assertTrue(phone.shop.access("owl").isGranted());
        phone.link.isDown = true;
        phone.shop.logOut();
        assertEquals(Denial.LOG_IN_NEEDED, phone.shop.access("owl").getDenial());
        assertTrue(phone.shop.getAllAccess().isEmpty());
        assertNull(phone.shop.store.state().tokens());
    }

    @Test
    public void aDeletionWhoseAnswerWasLostIsCompletedByTheNextOne() throws Exception {
        TestDevice phone = device(server(), "phone");
        phone.shop.signUp("ann", PASSWORD, EarlierPurchases.ADOPT);
        phone.link.fail("lose-answer", "/v1/accounts/self/erasure");
        assertEquals(Kind.OFFLINE, kindOf(() -> phone.shop.deleteAccount(PASSWORD)));
        assertEquals("ann", phone.shop.getAccount());
        phone.shop.deleteAccount(PASSWORD);
        assertNull(phone.shop.getAccount());
    }

    @Test
    public void aRecoveryCodeSetsAPasswordAndOldCodesEnd() throws Exception {
        TestDevice phone = device(server(), "phone");
        List<String> codes = phone.shop.signUp("ann", PASSWORD, EarlierPurchases.ADOPT);
        List<String> next = phone.shop.resetPassword("ann", codes.get(0), "battery staple", EarlierPurchases.ADOPT);
        assertEquals(codes.size(), next.size());
        assertEquals(Kind.WRONG_PASSWORD, kindOf(
            () -> phone.shop.resetPassword("ann", codes.get(1), PASSWORD, EarlierPurchases.ADOPT)));
        phone.shop.logIn("ann", "battery staple", EarlierPurchases.ADOPT);
    }

    @Test
    public void aLateAnswerDoesNotReplaceANewerOne() throws Exception {
        TestServer server = server();
        TestDevice phone = device(server, "phone");
        phone.shop.signUp("ann", PASSWORD, EarlierPurchases.ADOPT);
        phone.link.hold("/v1/entitlements");
        ExecutorService thread = Executors.newSingleThreadExecutor();
        Future<Void> late = thread.submit(() -> {
            phone.shop.refresh();
            return null;
        });
        phone.link.awaitHeld();
        server.purchase("ann", "owl", "o1", "2027-05-31T00:00:00Z");
        phone.shop.refresh();
        assertTrue(phone.shop.access("owl").isGranted());
        phone.link.open();
        late.get();
        thread.shutdown();
        assertTrue(phone.shop.access("owl").isGranted());
    }

    @Test
    public void anAnswerToAnotherRequestIsNoAnswer() throws Exception {
        TestDevice phone = device(server(), "phone");
        phone.link.fail("mix-up", "/v1/sessions");
        assertEquals(Kind.OFFLINE, kindOf(() -> phone.shop.logIn("ann", PASSWORD, EarlierPurchases.ADOPT)));
    }

    @Test
    public void anInterruptedThreadIsCancelledAndLosesNothing() throws Exception {
        TestDevice phone = device(server(), "phone");
        phone.shop.signUp("ann", PASSWORD, EarlierPurchases.ADOPT);
        Thread.currentThread().interrupt();
        assertEquals(Kind.CANCELLED, kindOf(() -> phone.shop.report(Item.purchase("owl", "o1"))));
        assertTrue(Thread.interrupted());
        assertEquals(0, phone.shop.getWaitingCount());
        assertTrue(phone.shop.report(Item.purchase("owl", "o1")));
    }

    // Observation.

    @Test
    public void listenersHearOfPurchasesElsewhereAndOfTheEndOfAccess() throws Exception {
        TestServer server = server();
        TestDevice phone = device(server, "phone");
        phone.shop.signUp("ann", PASSWORD, EarlierPurchases.ADOPT);
        BlockingQueue<Map<String, Access>> changes = new LinkedBlockingQueue<>();
        phone.shop.observe(changes::add);
        assertFalse(changes.take().get("nights").isGranted());
        server.purchase("ann", "month", "m1", "2027-05-04T00:00:00Z");
        Map<String, Access> bought = changes.take();
        assertEquals(Instant.parse("2027-06-03T00:00:00Z"), bought.get("nights").getUntil());
        phone.link.isDown = true;
        phone.clock.set("2027-06-03T00:00:00Z");
        phone.shop.watcher.changed();
        assertEquals(Denial.EXPIRED, changes.take().get("nights").getDenial());
        phone.shop.logOut();
        assertTrue(changes.take().isEmpty());
    }

    @Test
    public void anExceptionOfAListenerReachesTheHandlerAndTheNextChangeIsReported() throws Exception {
        TestServer server = server();
        TestDevice phone = device(server, "phone");
        phone.shop.signUp("ann", PASSWORD, EarlierPurchases.ADOPT);
        BlockingQueue<String> thrown = new LinkedBlockingQueue<>();
        Thread.UncaughtExceptionHandler former = Thread.getDefaultUncaughtExceptionHandler();
        Thread.setDefaultUncaughtExceptionHandler((thread, error) -> thrown.add(error.getMessage()));
        try {
            phone.shop.observe(access -> {
                throw new IllegalStateException(String.valueOf(access.get("owl")));
            });
            assertEquals("notPurchased", thrown.take());
            server.purchase("ann", "owl", "o1", "2027-05-31T00:00:00Z");
            while (!thrown.take().equals("granted")) continue;
        } finally {
            Thread.setDefaultUncaughtExceptionHandler(former);
        }
    }

    // Errors.

    @Test
    public void errorsHaveTheKindsAndTextsOfTheKit() throws Exception {
        TestServer server = server();
        TestDevice phone = device(server, "phone");
        phone.shop.signUp("ann", PASSWORD, EarlierPurchases.ADOPT);
        assertEquals(Kind.NAME_TAKEN, kindOf(() -> phone.shop.signUp("ann", "another one", EarlierPurchases.ADOPT)));
        ShopException error = assertThrows(
            ShopException.class, () -> phone.shop.signUp("bob", "short", EarlierPurchases.ADOPT));
        assertEquals(Kind.INVALID, error.getKind());
        assertEquals(
            "This is not allowed: this password is too short; choose one of at least 8 characters. "
                + "Change it, and try again.", error.getUserMessage());
        assertEquals(Kind.WRONG_PASSWORD, kindOf(() -> phone.shop.logIn("ann", "wrong", EarlierPurchases.ADOPT)));
        assertEquals(Kind.WRONG_PASSWORD, kindOf(() -> phone.shop.deleteAccount("wrong")));
        assertEquals("ann", phone.shop.getAccount());
        assertEquals(Kind.CATALOG, kindOf(() -> phone.shop.access("unknown")));
        String swift = new String(Files.readAllBytes(
            TestServer.SCENARIOS.resolve("../../Sources/EntitlementKit/ShopError.swift")), StandardCharsets.UTF_8);
        for (Kind kind : Kind.values()) {
            String text = new ShopException(kind, "\\(description)").getUserMessage();
            boolean isShared = swift.contains("static let " + kind.getName() + " ")
                || swift.contains("case ." + kind.getName() + ": \"");
            assertEquals(kind.getName(), isShared, swift.contains("\"" + text + "\""));
        }
    }

    @Test
    public void addressesWithoutTLSAreRefused() {
        FileStorage storage = new FileStorage(new java.io.File("/nonexistent"));
        String[] addresses = {
            "http://shop.example.com", "http://localhost.example.com", "http://localhost@example.com", "http://[", "",
            "ftp://localhost", "shop.example.com", "https://", "https://example.com?a=b", "https://user@example.com",
        };
        for (String address : addresses) {
            assertEquals(Kind.NO_SERVER, kindOf(() -> Shop.open(address, storage, Trust.server())));
        }
    }

    @Test
    public void anotherKindOfServerIsRecognized() throws Exception {
        String[] answers = {"<html>Welcome</html>", "{}", "[]", "{\"access_token\":\"a\"}", ""};
        for (String answer : answers) {
            for (int status : new int[] {200, 302, 404}) {
                HttpServer other = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
                other.createContext("/", exchange -> {
                    byte[] body = answer.getBytes(StandardCharsets.UTF_8);
                    exchange.getResponseHeaders().set("Location", "/");
                    exchange.sendResponseHeaders(status, body.length == 0 ? -1 : body.length);
                    exchange.getResponseBody().write(body);
                    exchange.close();
                });
                other.start();
                Path folder = Files.createTempDirectory("entitlementsync-java");
                try {
                    Shop shop = Shop.open(
                        "http://127.0.0.1:" + other.getAddress().getPort(), new FileStorage(folder.toFile()),
                        Trust.server());
                    assertEquals(
                        status + " " + answer, Kind.NO_SERVER,
                        kindOf(() -> shop.logIn("ann", PASSWORD, EarlierPurchases.ADOPT)));
                } finally {
                    other.stop(0);
                    TestServer.delete(folder);
                }
            }
        }
    }

    @Test
    public void anUntrustedCertificateIsNamed() throws Exception {
        Path folder = Files.createTempDirectory("entitlementsync-java");
        String file = folder.resolve("keys.p12").toString();
        Process keytool = new ProcessBuilder(
            System.getProperty("java.home") + "/bin/keytool", "-genkeypair", "-keyalg", "EC", "-dname", "CN=localhost",
            "-keystore", file, "-storepass", PASSWORD, "-storetype", "PKCS12").inheritIO().start();
        assertEquals(0, keytool.waitFor());
        KeyStore keys = KeyStore.getInstance(new java.io.File(file), PASSWORD.toCharArray());
        KeyManagerFactory managers = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
        managers.init(keys, PASSWORD.toCharArray());
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(managers.getKeyManagers(), null, null);
        HttpsServer server = HttpsServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        server.setHttpsConfigurator(new HttpsConfigurator(context));
        server.start();
        try {
            Shop shop = Shop.open(
                "https://localhost:" + server.getAddress().getPort(), new FileStorage(folder.resolve("shop").toFile()),
                Trust.server());
            assertEquals(Kind.UNTRUSTED, kindOf(() -> shop.logIn("ann", PASSWORD, EarlierPurchases.ADOPT)));
        } finally {
            server.stop(0);
            TestServer.delete(folder);
        }
    }

    @Test
    public void aBusyProxyIsNoMistakeOfTheApp() throws Exception {
        TestDevice phone = device(server(), "phone");
        phone.link.fail("proxy-429", "/v1/sessions");
        ShopException error = assertThrows(
            ShopException.class, () -> phone.shop.logIn("ann", PASSWORD, EarlierPurchases.ADOPT));
        assertEquals(Kind.TOO_MANY_ATTEMPTS, error.getKind());
        assertTrue(error.isTransient());
        assertEquals("tooManyAttempts: the server answers with status 429", error.getMessage());
    }

    @Test
    public void anUnusableStorageIsAnErrorAndNeverAnAbsence() throws Exception {
        TestServer server = server();
        TestDevice phone = device(server, "phone");
        phone.shop.signUp("ann", PASSWORD, EarlierPurchases.ADOPT);
        Path file = phone.folder.resolve(State.NAME);
        byte[] content = Files.readAllBytes(file);
        String text = new String(content, StandardCharsets.UTF_8);
        Files.write(file, new byte[0]);
        assertEquals(Kind.DAMAGED, kindOf(() -> phone.shop.access("owl")));
        assertEquals(Kind.DAMAGED, kindOf(phone::open));
        Files.write(file, text.replace("\"format\":1", "\"format\":2").getBytes(StandardCharsets.UTF_8));
        assertEquals(Kind.NEWER_VERSION, kindOf(() -> phone.shop.access("owl")));
        Files.delete(file);
        Files.createDirectory(file);
        assertEquals(Kind.STORAGE, kindOf(() -> phone.shop.access("owl")));
        Files.delete(file);
        Files.write(file, content);
        assertEquals("ann", phone.shop.getAccount());
        Path notAFolder = Files.write(server.folder.resolve("file"), new byte[1]);
        // The kernel lets nobody create a folder in /proc.
        for (String folder : new String[] {notAFolder.toString(), "/proc/entitlementsync"}) {
            FileStorage storage = new FileStorage(new java.io.File(folder));
            assertEquals(Kind.STORAGE, kindOf(() -> Shop.open(server.url, storage, Trust.server())));
        }
    }

    @Test
    public void onlyTheUserCanReadTheStorage() throws Exception {
        TestServer server = server();
        TestDevice phone = device(server, "phone");
        assertEquals("rwx------", PosixFilePermissions.toString(Files.getPosixFilePermissions(phone.folder)));
        Path shared = Files.createDirectory(
            server.folder.resolve("shared"),
            PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwxr-xr-x")));
        closing(Shop.open(server.url, new FileStorage(shared.toFile()), Trust.server()));
        for (String name : new String[] {State.NAME, Outbox.NAME}) {
            assertEquals(
                "rw-------", PosixFilePermissions.toString(Files.getPosixFilePermissions(shared.resolve(name))));
        }
    }

    @Test
    public void aFullDiskFailsTheReportAndKeepsWhatWasConfirmed() throws Exception {
        TestServer server = server();
        Path folder = server.folder.resolve("device");
        boolean[] isFull = {false};
        ShopStorage storage = new WrappedStorage(folder.toFile()) {
            @Override
            public void write(String name, byte[] value) throws IOException {
                if (isFull[0]) throw new IOException("No space left on device");
                super.write(name, value);
            }
        };
        Shop shop = closing(Shop.open(server.url, storage, Trust.server()));
        assertFalse(shop.report(Item.purchase("owl", "o1")));
        isFull[0] = true;
        assertEquals(Kind.FULL, kindOf(() -> shop.report(Item.purchase("month", "m1"))));
        assertEquals(1, shop.getWaitingCount());
    }
}
