package entitlementsync;

import java.util.Map;

/** Receives the changes of a {@link Shop}, one call after another, on a thread of the shop. */
public interface ShopListener {
    /**
     * The access has changed: at the server, on this device, with the account, or because time has passed. The first
     * call has the present access.
     *
     * @param access the access to each entitlement of the catalogue; empty if none is known
     */
    void onChange(Map<String, Access> access);

    /** The server has not recorded an item that was reported while it could not be reached. */
    default void onRejected(Item item, ShopException error) {}

    /** An activity in the background has failed. It is tried again. */
    default void onFailure(ShopException error) {}
}
