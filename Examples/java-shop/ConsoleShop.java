import entitlementsync.Access;
import entitlementsync.FileStorage;
import entitlementsync.Item;
import entitlementsync.Shop;
import entitlementsync.Shop.EarlierPurchases;
import entitlementsync.ShopException;
import entitlementsync.Trust;
import entitlementsync.Use;
import java.io.Closeable;
import java.io.File;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;

/** A shop on the console. Each command is one run of the app; the folder stands for a device. */
public final class ConsoleShop {
    private static final String USAGE = String.join("\n",
        "usage: ConsoleShop SERVER FOLDER COMMAND",
        "  show                     prints the access to everything",
        "  sign-up NAME             creates an account, with the password in SHOP_PASSWORD",
        "  log-in NAME              logs in, with the password in SHOP_PASSWORD",
        "  log-out                  logs out",
        "  buy PRODUCT TRANSACTION  reports a purchase that the seller has confirmed",
        "  restore                  restores purchases",
        "  has ENTITLEMENT          prints whether content is available",
        "  use ENTITLEMENT          uses content once",
        "  watch ENTITLEMENT        waits until content is available",
        "SHOP_ROOT has the server's root key, if the app pins it.");

    private ConsoleShop() {}

    public static void main(String[] arguments) throws Exception {
        if (arguments.length < 3) exit(USAGE, 2);
        try (Shop shop = Shop.open(arguments[0], new FileStorage(new File(arguments[1])), trust())) {
            String first = arguments.length > 3 ? arguments[3] : "";
            run(shop, arguments[2] + " " + (arguments.length - 3), first, arguments[arguments.length - 1]);
        } catch (ShopException error) {
            // The first line is for the user, the second for the log.
            exit(error.getUserMessage() + "\n" + error.getMessage(), 1);
        }
    }

    private static Trust trust() {
        String root = System.getenv("SHOP_ROOT");
        if (root == null) return Trust.server();
        try {
            return Trust.signedBy(root);
        } catch (IllegalArgumentException error) {
            exit("SHOP_ROOT: " + error.getMessage(), 2);
            throw error;
        }
    }

    private static String password() {
        String password = System.getenv("SHOP_PASSWORD");
        if (password == null) exit("SHOP_PASSWORD is not set: set it to the password of the account", 2);
        return password;
    }

    private static void run(Shop shop, String command, String first, String last) throws Exception {
        switch (command) {
            case "show 0":
                shop.refresh();
                System.out.println("logged in: " + shop.getAccount());
                shop.getAllAccess().forEach((name, access) -> System.out.println(name + "  " + access));
                break;
            case "sign-up 1":
                List<String> codes = shop.signUp(first, password(), EarlierPurchases.ADOPT);
                System.out.println("signed up: " + first + ", with " + codes.size() + " recovery codes");
                break;
            case "log-in 1":
                shop.logIn(first, password(), EarlierPurchases.ADOPT);
                System.out.println("logged in: " + first);
                break;
            case "log-out 0":
                shop.logOut();
                System.out.println("logged out");
                break;
            case "buy 2":
                boolean isRecorded = shop.report(Item.purchase(first, last));
                System.out.println("bought: " + first + (isRecorded ? "" : ", waits for the server"));
                break;
            case "restore 0":
                shop.restore();
                System.out.println("restored");
                break;
            case "has 1":
                Access access = shop.access(first);
                System.out.println(access.isGranted() ? "available" : "not available: " + access);
                break;
            case "use 1":
                Use use = shop.use(first, UUID.randomUUID().toString());
                System.out.println(use.isGranted() ? "used" : "not available: " + use.getAccess());
                break;
            case "watch 1":
                CountDownLatch available = new CountDownLatch(1);
                Closeable observation = shop.observe(all -> {
                    System.out.println(all);
                    if (all.containsKey(first) && all.get(first).isGranted()) available.countDown();
                });
                available.await();
                observation.close();
                break;
            default: exit(USAGE, 2);
        }
    }

    private static void exit(String message, int status) {
        System.err.println(message);
        System.exit(status);
    }
}
