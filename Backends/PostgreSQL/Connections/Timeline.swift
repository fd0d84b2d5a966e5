#if PostgreSQL
/// The part of a cluster's history that a server writes. A promotion begins the next one.
struct Timeline: Hashable, Sendable {
    /// The identifier of the cluster, which all servers of its history share.
    let cluster: Int64
    /// Higher after each promotion.
    let number: Int64

    /// Selects the cluster and the timeline of a primary, and no timeline of a standby.
    static let query = """
        SELECT (SELECT system_identifier FROM pg_catalog.pg_control_system()),
            CASE WHEN pg_catalog.pg_is_in_recovery() THEN NULL
            ELSE (
                'x' || substring(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()) FOR 8))::bit(32)::int8 END
        """

    /// The timeline in the result of ``query``; `nil` for a standby.
    init?(_ rows: Rows) {
        guard rows.count == 1, !rows.isNull(0, 0), !rows.isNull(0, 1) else { return nil }
        (cluster, number) = (rows.integer(0, 0), rows.integer(0, 1))
    }
}
#endif
