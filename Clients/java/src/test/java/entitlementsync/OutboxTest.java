package entitlementsync;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import entitlementsync.Access.Denial;
import entitlementsync.Shop.EarlierPurchases;
import entitlementsync.ShopException.Kind;
import java.io.BufferedReader;
import java.io.Closeable;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyPair;
import java.security.KeyPairGenerator;
import java.security.Signature;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.stream.Collectors;
import org.junit.After;
import org.junit.Before;
import org.junit.Test;

public class OutboxTest {
    private static final String PASSWORD = "correct horse";
    /** An address at which no server listens. */
    private static final String NOWHERE = "http://127.0.0.1:1";

    /** The number of processes that a test kills. */
    private static final int ROUNDS = Integer.parseInt(TestServer.property("rounds"));

    private TestServer server;
    private TestDevice phone;

    @Before
    public void start() throws Exception {
        server = TestServer.start();
        phone = new TestDevice(server, "phone");
    }

    @After
    public void stop() throws IOException {
        phone.close();
        server.close();
    }

    /** A process that reports purchases, and prints the name of each one that is confirmed, then all requests. */
    public static final class Reporter {
        private Reporter() {}

        public static void main(String[] arguments) throws Exception {
            Link link = new Link();
            Shop shop = Shop.open(
                arguments[0], new FileStorage(new File(arguments[1])), Trust.server(),
                TestDevice.options(link, System::currentTimeMillis));
            int count = Integer.parseInt(arguments[3]);
            for (int i = 0; i < count; i++) {
                String transaction = arguments[2] + "-" + i;
                shop.report(Item.purchase("pack", transaction));
                System.out.println(transaction);
            }
            for (int i = 0; i < link.requests.size(); i++) {
                System.out.println(link.times.get(i) + " " + link.requests.get(i));
            }
        }
    }

    private Process reporter(String server, String name, int count) throws IOException {
        List<String> command = TestServer.java(
            Reporter.class.getName(), server, phone.folder.toString(), name, String.valueOf(count));
        return new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
    }

    private static BufferedReader output(Process process) {
        return new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
    }

    private static List<String> transactions(List<JsonObject> entries) {
        return entries.stream().map(OutboxTest::transaction)
            .collect(Collectors.toList());
    }

    private static String transaction(JsonObject entry) {
        return (String) ((JsonObject) entry.members().get("item")).members().get("transaction");
    }

    private static List<String> names(String name, int count) {
        List<String> names = new ArrayList<>();
        for (int i = 0; i < count; i++) names.add(name + "-" + i);
        return names;
    }

    /** The transactions in requests that a link has recorded. */
    private static List<String> sent(List<String> requests) throws ShopException {
        String start = "POST /v1/transactions ";
        List<String> sent = new ArrayList<>();
        for (String request : requests) {
            if (!request.startsWith(start)) continue;
            byte[] body = request.substring(start.length()).getBytes(StandardCharsets.UTF_8);
            List<JsonObject> items = Json.object(body, Kind.OTHER).objects("evidence");
            for (JsonObject item : items) sent.add(item.text("transaction"));
        }
        return sent;
    }

    /** Kills a reporter after it has confirmed {@code count} purchases. Returns the number that it had confirmed. */
    private int killed(Process reporter, int count) throws Exception {
        BufferedReader output = output(reporter);
        int confirmed = 0;
        while (confirmed < count) {
            assertTrue(output.readLine() != null);
            confirmed++;
        }
        // Unlike the method of the process, this one leaves its output open.
        reporter.toHandle().destroyForcibly();
        for (String line = output.readLine(); line != null; line = output.readLine()) confirmed++;
        reporter.waitFor();
        return confirmed;
    }

    @Test
    public void aKillWhileOfflineLosesNothingThatWasConfirmed() throws Exception {
        List<String> expected = new ArrayList<>();
        for (int round = 0; round < ROUNDS; round++) {
            String name = "t" + round;
            int confirmed = killed(reporter(NOWHERE, name, 100_000), 7 * (round % 5) + 1);
            List<String> waiting = transactions(phone.shop.store.outbox().waiting(null));
            List<String> added = waiting.subList(expected.size(), waiting.size());
            // The last one may have been stored, but not confirmed.
            assertTrue(confirmed <= added.size() && added.size() <= confirmed + 1);
            assertEquals(names(name, added.size()), added);
            assertEquals(expected, waiting.subList(0, expected.size()));
            expected = waiting;
        }
    }

    @Test
    public void aKillWhileSendingLosesNothingAndCountsNothingTwice() throws Exception {
        phone.shop.signUp("ann", PASSWORD, EarlierPurchases.ADOPT);
        int least = 0;
        for (int round = 0; round < ROUNDS; round++) {
            least += killed(reporter(server.url, "t" + round, 100_000), 3 * (round % 5) + 1);
        }
        phone.shop.refresh();
        assertEquals(0, phone.shop.getWaitingCount());
        long units = phone.shop.access("random").getUnits();
        assertEquals(0, units % 3);
        assertTrue(least + " are confirmed, and " + units + " units granted", units / 3 >= least);
        assertTrue(units / 3 <= least + ROUNDS);
    }

    @Test
    public void twoProcessesSendEachItemOnce() throws Exception {
        phone.shop.signUp("ann", PASSWORD, EarlierPurchases.ADOPT);
        phone.link.isDown = true;
        for (String name : names("p", 40)) assertFalse(phone.shop.report(Item.purchase("pack", name)));
        Process first = reporter(server.url, "a", 20);
        Process second = reporter(server.url, "b", 20);
        List<String> lines = new ArrayList<>();
        for (Process process : Arrays.asList(first, second)) {
            lines.addAll(output(process).lines().collect(Collectors.toList()));
            assertEquals(0, process.waitFor());
        }
        // The requests of both processes, in the order of their answers. Processes of a machine share the clock.
        lines.removeIf(line -> !line.matches("[0-9]+ .*"));
        lines.sort(Comparator.comparingLong(line -> Long.parseLong(line.split(" ")[0])));
        List<String> sent = sent(lines.stream().map(line -> line.split(" ", 2)[1]).collect(Collectors.toList()));
        assertEquals(80, sent.size());
        for (String name : Arrays.asList("p", "a", "b")) {
            List<String> own = sent.stream().filter(each -> each.startsWith(name)).collect(Collectors.toList());
            assertEquals("once and in order", names(name, name.equals("p") ? 40 : 20), own);
        }
        phone.link.isDown = false;
        phone.shop.refresh();
        assertEquals(Long.valueOf(240), phone.shop.access("random").getUnits());
    }

    @Test
    public void itemsGoOutInTheOrderOfTheirReports() throws Exception {
        phone.shop.signUp("ann", PASSWORD, EarlierPurchases.ADOPT);
        phone.link.isDown = true;
        List<String> names = names("p", 70);
        for (String name : names) assertFalse(phone.shop.report(Item.purchase("pack", name)));
        phone.link.isDown = false;
        phone.shop.refresh();
        assertEquals(names, sent(phone.link.requests));
    }

    @Test
    public void aPurchaseCountsFromItsReportAndNotFromItsArrival() throws Exception {
        phone.shop.signUp("ann", PASSWORD, EarlierPurchases.ADOPT);
        phone.link.isDown = true;
        assertFalse(phone.shop.report(Item.purchase("month", "m1")));
        String date = phone.shop.store.outbox().entries.get(0).text("date");
        server.stop();
        server.run("2027-06-11T00:00:00Z");
        phone.link.isDown = false;
        phone.shop.refresh();
        assertEquals(
            Instant.parse(date).plus(Duration.ofDays(30)), phone.shop.access("nights").getUntil());
        // Without a date it is the same purchase.
        assertTrue(phone.shop.report(Item.purchase("month", "m1")));
        assertEquals(0, phone.shop.store.outbox().entries.size());
    }

    @Test
    public void unitsAreSpentOfflineOnceAndRejectedIfAnotherDeviceWasFirst() throws Exception {
        phone.shop.signUp("ann", PASSWORD, EarlierPurchases.ADOPT);
        assertTrue(phone.shop.report(Item.purchase("pack", "p1").date(Instant.parse("2027-05-31T00:00:00Z"))));
        try (TestDevice tablet = new TestDevice(server, "tablet")) {
            tablet.shop.logIn("ann", PASSWORD, EarlierPurchases.ADOPT);
            tablet.link.isDown = true;
            assertEquals(1, tablet.shop.use("random", "u1").getSpent());
            assertEquals(Long.valueOf(2), tablet.shop.access("random").getUnits());
            assertTrue(tablet.shop.use("random", "u1").isGranted());
            assertEquals(Long.valueOf(2), tablet.shop.access("random").getUnits());
            assertTrue(tablet.shop.use("random", "u2").isGranted());
            assertEquals(Long.valueOf(0), tablet.shop.use("random", "u3").getAccess().getUnits());
            assertEquals(Denial.USED_UP, tablet.shop.use("random", "u4").getDenial());
            assertEquals(3, tablet.shop.getWaitingCount());
            for (String id : Arrays.asList("v1", "v2")) assertEquals(1, phone.shop.use("random", id).getSpent());
            BlockingQueue<String> rejected = new LinkedBlockingQueue<>();
            tablet.link.isDown = false;
            tablet.shop.observe(new ShopListener() {
                @Override
                public void onChange(Map<String, Access> access) {}

                @Override
                public void onRejected(Item item, ShopException error) {
                    rejected.add(item + " " + error.getKind().getName());
                }
            });
            for (String id : Arrays.asList("u2", "u3")) {
                assertEquals(
                    "{\"kind\":\"spend\",\"entitlement\":\"random\",\"id\":\"" + id + "\"} refusedByServer",
                    rejected.take());
            }
            assertEquals(0, tablet.shop.getWaitingCount());
        }
    }

    @Test
    public void aRejectionAfterTheEndOfTheProcessWaitsForAListener() throws Exception {
        phone.shop.signUp("ann", PASSWORD, EarlierPurchases.ADOPT);
        phone.link.isDown = true;
        assertFalse(phone.shop.report(Item.purchase("unknown", "u1")));
        phone.link.isDown = false;
        phone.reopen();
        phone.shop.refresh();
        assertEquals(0, phone.shop.getWaitingCount());
        phone.reopen();
        BlockingQueue<ShopException> rejected = new LinkedBlockingQueue<>();
        phone.shop.observe(new ShopListener() {
            @Override
            public void onChange(Map<String, Access> access) {}

            @Override
            public void onRejected(Item item, ShopException error) {
                rejected.add(error);
            }
        });
        assertEquals(Kind.CATALOG, rejected.take().getKind());
    }

    @Test
    public void threadsSendEachItemOnce() throws Exception {
        phone.shop.signUp("ann", PASSWORD, EarlierPurchases.ADOPT);
        List<Thread> threads = new ArrayList<>();
        for (String name : Arrays.asList("a", "b", "c", "d")) {
            threads.add(new Thread(() -> {
                try {
                    for (String each : names(name, 10)) assertTrue(phone.shop.report(Item.purchase("pack", each)));
                } catch (ShopException error) {
                    throw new AssertionError(error);
                }
            }));
        }
        for (Thread thread : threads) thread.start();
        for (Thread thread : threads) thread.join();
        List<String> sent = sent(phone.link.requests);
        assertEquals(40, sent.size());
        assertEquals(40, new HashSet<>(sent).size());
        assertEquals(Long.valueOf(120), phone.shop.access("random").getUnits());
    }

    @Test
    public void whatWasReportedWithoutAnAccountIsAdoptedOrStays() throws Exception {
        assertFalse(phone.shop.report(Item.purchase("owl", "o1")));
        phone.shop.signUp("bob", "battery staple", EarlierPurchases.LEAVE_ON_DEVICE);
        assertEquals(Denial.NOT_PURCHASED, phone.shop.access("owl").getDenial());
        phone.shop.logOut();
        assertEquals(1, phone.shop.getWaitingCount());
        phone.shop.signUp("ann", PASSWORD, EarlierPurchases.ADOPT);
        assertTrue(phone.shop.access("owl").isGranted());
        assertEquals(0, phone.shop.getWaitingCount());
    }

    @Test
    public void aRefusedReportThrowsAndIsNotSentAgain() throws Exception {
        phone.shop.signUp("ann", PASSWORD, EarlierPurchases.ADOPT);
        ShopException error = assertThrows(
            ShopException.class, () -> phone.shop.report(Item.purchase("unknown", "u1")));
        assertEquals(Kind.CATALOG, error.getKind());
        error = assertThrows(ShopException.class, () -> phone.shop.report(Item.purchase("owl", "o1").quantity(0)));
        assertEquals(Kind.INVALID, error.getKind());
        assertTrue(phone.shop.report(Item.purchase("owl", "o1")));
        error = assertThrows(ShopException.class, () -> phone.shop.report(Item.purchase("month", "o1")));
        assertEquals(Kind.INVALID, error.getKind());
        assertEquals(0, phone.shop.store.outbox().entries.size());
    }

    @Test
    public void moreThanTheLargestNumberOfItemsIsRefused() throws Exception {
        Outbox outbox = new Outbox(null);
        for (int i = 0; i < Outbox.MAXIMUM_COUNT; i++) outbox.add(null, Item.purchase("owl", "o" + i), null);
        assertEquals(Kind.OUTBOX_FULL, assertThrows(
            ShopException.class, () -> outbox.add(null, Item.purchase("owl", "one more"), null)).getKind());
        assertEquals(1, outbox.add(null, Item.purchase("owl", "o0"), null));
    }

    // Requests that are too long.

    /** The numbers of items in the requests that a link has recorded. */
    private static List<Integer> sizes(List<String> requests) throws ShopException {
        List<Integer> sizes = new ArrayList<>();
        for (String request : requests) {
            if (request.startsWith("POST /v1/transactions")) sizes.add(sent(Collections.singletonList(request)).size());
        }
        return sizes;
    }

    /** Restarts the server with a limit for the bytes of a body. */
    private void limitBodies(int bytes) throws IOException {
        server.stop();
        server.addOptions("--limit", "body-bytes=" + bytes);
        // A purchase after the time of the server would not count.
        server.run(phone.clock.toString());
    }

    @Test
    public void aRequestThatTheServerFindsTooLongIsSentInHalves() throws Exception {
        phone.shop.signUp("ann", PASSWORD, EarlierPurchases.ADOPT);
        phone.link.isDown = true;
        List<String> names = names("p", 70);
        for (String name : names) assertFalse(phone.shop.report(Item.purchase("pack", name)));
        limitBodies(1_024);
        phone.link.isDown = false;
        phone.shop.refresh();
        assertEquals(0, phone.shop.getWaitingCount());
        assertEquals(Long.valueOf(210), phone.shop.access("random").getUnits());
        List<String> accepted = new ArrayList<>();
        for (int i = 0; i < phone.link.requests.size(); i++) {
            if (phone.link.answers.get(i).startsWith("200")) accepted.add(phone.link.requests.get(i));
        }
        assertEquals("each is recorded once, in order", names, sent(accepted));
        assertEquals(Arrays.asList(32, 16, 8), sizes(phone.link.requests).subList(0, 3));
    }

    @Test
    public void aRequestThatAProxyFindsTooLongIsSentInHalves() throws Exception {
        phone.shop.signUp("ann", PASSWORD, EarlierPurchases.ADOPT);
        phone.link.isDown = true;
        for (String name : names("p", 5)) assertFalse(phone.shop.report(Item.purchase("pack", name)));
        phone.link.isDown = false;
        phone.link.fail("proxy-413", "/v1/transactions");
        phone.shop.refresh();
        assertEquals(names("p", 5), sent(phone.link.requests));
        assertEquals(Arrays.asList(2, 3), sizes(phone.link.requests));
    }

    @Test
    public void anItemThatIsTooLongByItselfIsRefusedAndHoldsUpNoOther() throws Exception {
        phone.shop.signUp("ann", PASSWORD, EarlierPurchases.ADOPT);
        phone.link.isDown = true;
        String data = String.join("", Collections.nCopies(2_000, "x"));
        assertFalse(phone.shop.report(Item.purchase("pack", "p-0")));
        assertFalse(phone.shop.report(Item.googlePlay(data, "signature")));
        assertFalse(phone.shop.report(Item.purchase("pack", "p-1")));
        limitBodies(1_024);
        phone.link.isDown = false;
        phone.shop.refresh();
        assertEquals(0, phone.shop.getWaitingCount());
        assertEquals(Long.valueOf(6), phone.shop.access("random").getUnits());
        List<JsonObject> rejected = phone.shop.sync.takeRejected();
        assertEquals(1, rejected.size());
        assertEquals("google-play", rejected.get(0).object("item").text("kind"));
        ShopException error = assertThrows(
            ShopException.class, () -> phone.shop.report(Item.googlePlay(data, "signature")));
        assertEquals(Kind.INVALID, error.getKind());
        assertTrue(error.getMessage(), error.getMessage().contains("invalid: the body must have at most 1024 bytes"));
    }

    @Test
    public void aRestoreThatIsTooLongIsSentInHalves() throws Exception {
        phone.shop.signUp("ann", PASSWORD, EarlierPurchases.ADOPT);
        limitBodies(1_024);
        List<Item> evidence = new ArrayList<>();
        for (String name : names("p", 39)) evidence.add(Item.purchase("pack", name));
        evidence.add(20, Item.purchase("unknown", "u1"));
        ShopException refused = assertThrows(
            ShopException.class, () -> phone.shop.restore(evidence.toArray(new Item[0])));
        assertEquals(Kind.CATALOG, refused.getKind());
        assertEquals("the others are recorded", Long.valueOf(117), phone.shop.access("random").getUnits());
    }

    // Several accounts, entitlements and processes.

    @Test
    public void evidenceCountsWhereReportsDoNotAndForOneAccount() throws Exception {
        KeyPairGenerator generator = KeyPairGenerator.getInstance("RSA");
        generator.initialize(2_048);
        KeyPair keys = generator.generateKeyPair();
        byte[] publicKey = Base64.getEncoder().encode(keys.getPublic().getEncoded());
        Path file = Files.write(server.folder.resolve("play.key"), publicKey);
        String data = "{\"packageName\":\"com.example.owl\",\"productId\":\"owl\",\"orderId\":\"GPA.1\","
            + "\"purchaseToken\":\"token\",\"purchaseState\":0,\"purchaseTime\":"
            + (Instant.parse(TestServer.AT).toEpochMilli() - 60_000) + "}";
        Signature signer = Signature.getInstance("SHA1withRSA");
        signer.initSign(keys.getPrivate());
        signer.update(data.getBytes(StandardCharsets.UTF_8));
        Item evidence = Item.googlePlay(data, Base64.getEncoder().encodeToString(signer.sign()));
        try (TestServer verifying = TestServer.start(
                "--policy", "verified", "--ownership", "transfer", "--play-package", "com.example.owl", "--play-key",
                file.toString());
            TestDevice tablet = new TestDevice(verifying, "tablet")) {
            tablet.shop.signUp("ann", PASSWORD, EarlierPurchases.ADOPT);
            Map<Item, Kind> unverified = new HashMap<>();
            unverified.put(Item.purchase("owl", "o1"), Kind.UNVERIFIED);
            Item changed = evidence.with("data", data.replace("owl\",\"order", "month\",\"order"));
            unverified.put(changed, Kind.REFUSED_BY_SERVER);
            unverified.forEach((item, kind) -> {
                ShopException error = assertThrows(ShopException.class, () -> tablet.shop.report(item));
                assertEquals(error.getMessage(), kind, error.getKind());
            });
            assertTrue(tablet.shop.report(evidence));
            assertTrue(tablet.shop.access("owl").isGranted());
            tablet.shop.signUp("bob", "battery staple", EarlierPurchases.ADOPT);
            ShopException error = assertThrows(ShopException.class, () -> tablet.shop.report(evidence));
            assertEquals(Kind.OWNED_BY_ANOTHER_ACCOUNT, error.getKind());
            assertEquals(Denial.NOT_PURCHASED, tablet.shop.access("owl").getDenial());
            // Only a statement that its store has signed since then moves, and Google Play signs once.
            error = assertThrows(ShopException.class, () -> tablet.shop.restore(evidence));
            assertEquals(Kind.OWNED_BY_ANOTHER_ACCOUNT, error.getKind());
            assertTrue(error.getMessage(), error.getMessage().contains("restore again with a transaction"));
            tablet.shop.logIn("ann", PASSWORD, EarlierPurchases.ADOPT);
            tablet.shop.restore(evidence);
            assertTrue(tablet.shop.access("owl").isGranted());
        }
    }

    @Test
    public void entitlementsWithTheSameUnitsShareWhatIsSpentOffline() throws Exception {
        String catalog = "{\"products\": [{\"id\": \"pack\", \"type\": \"consumable\", \"units\": 3, "
            + "\"names\": {\"en\": \"3 owls\"}}], \"entitlements\": ["
            + "{\"id\": \"day\", \"grantedBy\": [\"units:pack\"]}, "
            + "{\"id\": \"night\", \"grantedBy\": [\"units:pack\"]}], \"policy\": {\"consumables\": \"shared\"}}";
        Path file = Files.write(server.folder.resolve("catalog.json"), catalog.getBytes(StandardCharsets.UTF_8));
        try (TestServer sharing = TestServer.start(false, TestServer.AT, file.toString());
            TestDevice tablet = new TestDevice(sharing, "tablet")) {
            tablet.shop.signUp("ann", PASSWORD, EarlierPurchases.ADOPT);
            assertTrue(tablet.shop.report(Item.purchase("pack", "p1")));
            tablet.link.isDown = true;
            for (String name : Arrays.asList("day", "night", "day")) {
                assertEquals(1, tablet.shop.use(name, "u" + tablet.shop.getWaitingCount()).getSpent());
            }
            assertEquals(Denial.USED_UP, tablet.shop.use("night", "u3").getDenial());
            tablet.link.isDown = false;
            tablet.shop.refresh();
            assertEquals(0, tablet.shop.store.outbox().entries.size());
            assertEquals(Denial.USED_UP, tablet.shop.access("day").getDenial());
        }
    }

    @Test
    public void aSpendCountsOnThisDeviceAlsoIfItsNextAnswerIsLost() throws Exception {
        phone.shop.signUp("ann", PASSWORD, EarlierPurchases.ADOPT);
        assertTrue(phone.shop.report(Item.purchase("pack", "p1")));
        phone.link.fail("lose-answer", "/v1/entitlements");
        assertEquals(1, phone.shop.use("random", "u1").getSpent());
        assertEquals(Kind.OFFLINE, phone.shop.getFailure().getKind());
        assertEquals(Long.valueOf(2), phone.shop.access("random").getUnits());
        phone.shop.refresh();
        assertEquals(Long.valueOf(2), phone.shop.access("random").getUnits());
    }

    @Test
    public void aRejectionThatAnotherProcessHasReceivedReachesTheCaller() throws Exception {
        phone.shop.signUp("ann", PASSWORD, EarlierPurchases.ADOPT);
        CountDownLatch told = new CountDownLatch(1);
        phone.shop.observe(new ShopListener() {
            @Override
            public void onChange(Map<String, Access> access) {}

            @Override
            public void onRejected(Item item, ShopException error) {
                told.countDown();
            }
        });
        // Before this shop may send its item, the other one sends it and tells its listener.
        Shop other = phone.open(new WrappedStorage(phone.folder.toFile()) {
            @Override
            public Closeable lock(String name) throws IOException {
                try {
                    if (name.equals("send")) {
                        phone.shop.refresh();
                        told.await();
                    }
                } catch (ShopException | InterruptedException error) {
                    throw new IOException(error);
                }
                return super.lock(name);
            }
        });
        ShopException error = assertThrows(
            ShopException.class, () -> other.report(Item.purchase("unknown", "u1")));
        assertEquals(Kind.CATALOG, error.getKind());
        assertEquals(0, phone.shop.store.outbox().entries.size());
        other.close();
    }

    @Test
    public void anItemTakesOnlyWhatJSONHas() throws Exception {
        assertEquals("{\"kind\":\"k\",\"a\":1,\"b\":2,\"c\":true,\"d\":\"é\"}", Item.ofKind("k").with("a", 1)
            .with("b", 2L).with("c", true).with("d", "é").toString());
        for (Object value : Arrays.asList(null, 0.5, Double.NaN, new ArrayList<>(), 'x', "\ud83e")) {
            assertThrows(IllegalArgumentException.class, () -> Item.ofKind("k").with("a", value));
        }
        assertThrows(IllegalArgumentException.class, () -> Item.purchase("pack", "\udd89"));
        assertFalse(phone.shop.report(Item.purchase("pack", "p1").quantity(2)));
        assertFalse(phone.shop.report(Item.purchase("pack", "p1").with("quantity", 2)));
        assertEquals("the same item waits once", 1, phone.shop.getWaitingCount());
    }
}
