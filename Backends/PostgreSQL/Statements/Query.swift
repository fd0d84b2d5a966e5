#if PostgreSQL
/// The statements that every connection prepares.
enum Query: String, CaseIterable, Sendable {
    /// timeout in milliseconds: makes the transaction durable, limits its waits for locks, and returns the number of
    /// the server's process. The first statement of each transaction that writes, because a setting of the session may
    /// be lost.
    case begin
    /// key, known version or NULL: version, value unless known.
    case read
    /// key after, first key, end of keys, limit: key, version, size.
    case list
    /// key, version, value, tag: a row.
    case writeAlways
    /// key, version, value, tag: a row if the key was absent.
    case writeAbsent
    /// key, expected version, version, value, tag: a row if the entry had the expected version.
    case writeMatching
    /// key, version, tag: a row if the key had an entry.
    case deleteAlways
    /// key, expected version, version, tag: a row if the entry had the expected version.
    case deleteMatching
    /// key, a version that is not of interest: version, value.
    case current
    /// The names of the synchronous standbys.
    case standbys
    /// True if the server accepts no writes.
    case role
    /// Takes the turn to number the waiting changes, unless nothing waits or another transaction has it.
    case tryTurn
    /// Takes the turn to number the waiting changes, unless nothing waits. Waits while another transaction has it.
    case takeTurn
    /// Numbers the waiting changes, if this transaction has the turn.
    case number
    /// The number and tag of the latest change.
    case latest
    /// The server's time in milliseconds since 1970 UTC.
    case clock
    /// number, tag: the tag of that change, true if all later changes are there, and otherwise the numbers of all
    /// marks, separated by commas.
    case change
    /// The number of the latest mark; no row if there is none.
    case latestMark
    /// number, limit, limit of changes to look at: number, tag, key, version, true if deleted, true if it is the
    /// latest of its key, number of changes looked at.
    case changes
    /// first key, end of keys, limit: the number of keys and of deletions, each at most the limit.
    case countKeys
    /// number, limit of changes to look at, length of the prefix, prefix, limit: as ``changes``.
    case changesFiltered
    /// number, first key, end of keys, limit: number, tag, key, version, true if deleted.
    case changesOfKeys
    /// seconds: records the time and the latest change, at most once in these seconds.
    case mark
    /// seconds, number of changes: removes changes that were superseded, and deletions, before these seconds.
    case sweep

    /// True if the statement changes rows.
    var isWriting: Bool {
        switch self {
        case .writeAlways, .writeAbsent, .writeMatching, .deleteAlways, .deleteMatching, .number, .mark, .sweep: true
        default: false
        }
    }

    /// The text of the statement for the tables in `schema`.
    func sql(schema: String, defects: Defects) -> String {
        guard var text = Self.texts[self] else { preconditionFailure("\(self) has no text") }
        if defects.contains(.numbersAtWrite) {
            text = text.replacing(
                Self.note,
                with: "INSERT INTO @.change (n, tag, key, version, deleted) "
                    + "SELECT nextval(pg_get_serial_sequence('@.waiting', 'n')), ")
        }
        if defects.contains(.readsConflictInOneStatement), self == .writeMatching { text = Self.defectiveWriteMatching }
        if defects.contains(.turnsNotAwaited), self == .takeTurn { text = Self.texts[.tryTurn] ?? text }
        if defects.contains(.durableBySession), self == .begin {
            text = "SELECT '', set_config('lock_timeout', ($1::bigint)::text, true), pg_backend_pid()"
        }
        return text.replacing("@.", with: "\(schema).")
    }

    private static let put = """
        WITH written AS (
            INSERT INTO @.entry (key, version, value) VALUES ($1::bytea, $2::bytea, $3::bytea) ON CONFLICT (key) DO
        """
    private static let note = "INSERT INTO @.waiting (tag, key, version, deleted) SELECT "

    /// The lower bound of the transactions that the latest numbering `l` did not see. After a restore into another
    /// cluster, whose transactions have lower numbers, all of them.
    private static let bound = """
        CASE WHEN pg_snapshot_xmax(l.snapshot) > pg_snapshot_xmax(pg_current_snapshot()) THEN '0'::xid8
            ELSE pg_snapshot_xmax(l.snapshot) END
        """
    /// True if changes wait that the latest numbering did not see. Reads no row that an earlier one has moved: a
    /// subquery, unlike a join, is certain to be the bound of the index.
    private static let isDue = """
        EXISTS (SELECT FROM @.waiting WHERE xid >= (
            SELECT \(bound) FROM (SELECT snapshot FROM @.numbering ORDER BY n DESC LIMIT 1) l))
        OR EXISTS (SELECT FROM @.waiting WHERE xid = ANY (ARRAY(
            SELECT pg_snapshot_xip(l.snapshot) FROM (SELECT snapshot FROM @.numbering ORDER BY n DESC LIMIT 1) l)))
        """
    /// The number is arbitrary. The second one makes the lock one of the store's schema.
    private static let turn = "1702064228, '@.numbering'::regclass::oid::int"
    /// Notes what the transaction must number: all that was committed before it took the turn.
    private static let seen =
        "set_config('entitlementsync.seen', pg_snapshot_xmax(pg_current_snapshot())::text, true)"
    /// True if the change `s` is the latest of its key, of which `e` is the entry.
    private static let isLatest = """
        coalesce(
            CASE WHEN s.deleted THEN e.key IS NULL
                AND NOT EXISTS (SELECT FROM @.change d WHERE d.key = s.key AND d.n > s.n)
            ELSE e.version = s.version END, false)
        """

    private static let texts: [Query: String] = writeTexts.merging(feedTexts) { $1 }

    private static let writeTexts: [Query: String] = [
        .begin: """
        SELECT set_config('synchronous_commit', 'on', true), set_config('lock_timeout', ($1::bigint)::text, true),
            pg_backend_pid()
        """,
        .list: """
        SELECT key, version, octet_length(value)::bigint FROM @.entry
        WHERE key > $1::bytea AND key >= $2::bytea AND key < $3::bytea ORDER BY key LIMIT $4::bigint
        """,
        .current: "SELECT version, value FROM @.entry WHERE key = $1::bytea AND version <> $2::bytea",
        .read: """
        SELECT version, CASE WHEN version = $2::bytea THEN NULL ELSE value END FROM @.entry WHERE key = $1::bytea
        """,
        .writeAlways: """
        \(put) UPDATE SET version = EXCLUDED.version, value = EXCLUDED.value RETURNING key, version)
        \(note) $4::bigint, key, version, false FROM written RETURNING true
        """,
        .writeAbsent: """
        \(put) NOTHING RETURNING key, version)
        \(note) $4::bigint, key, version, false FROM written RETURNING true
        """,
        .writeMatching: """
        WITH written AS (
            UPDATE @.entry SET version = $3::bytea, value = $4::bytea
            WHERE key = $1::bytea AND version = $2::bytea RETURNING key, version)
        \(note) $5::bigint, key, version, false FROM written RETURNING true
        """,
        .deleteAlways: """
        WITH written AS (DELETE FROM @.entry WHERE key = $1::bytea RETURNING key)
        \(note) $3::bigint, key, $2::bytea, true FROM written RETURNING true
        """,
        .deleteMatching: """
        WITH written AS (DELETE FROM @.entry WHERE key = $1::bytea AND version = $2::bytea RETURNING key)
        \(note) $4::bigint, key, $3::bytea, true FROM written RETURNING true
        """,
        .standbys: "SELECT current_setting('synchronous_standby_names')",
        .role: "SELECT current_setting('transaction_read_only') = 'on'",
        .clock: "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint",
    ]

    private static let feedTexts: [Query: String] = [
        // Without anything to number, the transaction has no number of its own, and its end waits for no standby.
        .tryTurn: """
        SELECT set_config('entitlementsync.turn',
            CASE WHEN \(isDue) THEN pg_try_advisory_xact_lock(\(turn))::text ELSE 'false' END, true), \(seen)
        """,
        .takeTurn: """
        SELECT set_config('entitlementsync.turn',
            CASE WHEN \(isDue) THEN 'true' || pg_advisory_xact_lock(\(turn))::text ELSE 'false' END, true), \(seen)
        """,
        // A statement of its own, whose snapshot has all that the transactions before it have numbered. Only one
        // transaction at a time numbers changes, and what it numbers is committed. It does nothing if the one before it
        // had a later snapshot than `seen`: of many readers that wait for one turn, the first numbers for all.
        .number: """
        WITH last AS MATERIALIZED (
            SELECT n, snapshot FROM (
                SELECT n, snapshot FROM @.numbering WHERE current_setting('entitlementsync.turn', true) = 'true'
                ORDER BY n DESC LIMIT 1) AS l
            WHERE pg_snapshot_xmax(snapshot) <= current_setting('entitlementsync.seen', true)::xid8
                OR pg_snapshot_xmax(snapshot) > pg_snapshot_xmax(pg_current_snapshot())),
        due AS MATERIALIZED (
            SELECT ctid AS place FROM @.waiting WHERE xid >= (SELECT \(bound) FROM last l)
            UNION ALL
            SELECT ctid FROM @.waiting
            WHERE xid = ANY (ARRAY(SELECT pg_snapshot_xip(l.snapshot) FROM last l))),
        moved AS (
            DELETE FROM @.waiting WHERE ctid = ANY (ARRAY(SELECT place FROM due))
            RETURNING n, tag, key, version, deleted),
        numbered AS (
            INSERT INTO @.change (n, tag, key, version, deleted)
            SELECT l.n + row_number() OVER (ORDER BY m.n), m.tag, m.key, m.version, m.deleted FROM moved m, last l
            RETURNING 1)
        INSERT INTO @.numbering (n, snapshot)
        SELECT l.n + (SELECT count(*) FROM numbered), pg_current_snapshot() FROM last l
        WHERE (SELECT count(*) FROM numbered) > 0
        """,
        .change: """
        SELECT c.tag, c.n >= s.n, CASE WHEN c.tag = $2::bigint AND c.n >= s.n THEN ''
            ELSE (SELECT string_agg(m.n::text, ',') FROM @.mark m) END
        FROM @.change c, @.sweep s WHERE c.n = $1::bigint AND s.id = 0
        """,
        .latestMark: "SELECT n FROM @.mark ORDER BY at DESC LIMIT 1",
        .countKeys: """
        SELECT (SELECT count(*) FROM (
                SELECT FROM @.entry WHERE key >= $1::bytea AND key < $2::bytea LIMIT $3::bigint) AS keys)
            + (SELECT count(*) FROM (
                SELECT FROM @.change WHERE deleted AND key >= $1::bytea AND key < $2::bytea LIMIT $3::bigint) AS gone)
        """,
        .changes: """
        WITH seen AS MATERIALIZED (
            SELECT n, tag, key, version, deleted FROM @.change WHERE n > $1::bigint ORDER BY n LIMIT $3::bigint),
        judged AS MATERIALIZED (
            SELECT s.n, s.tag, s.key, s.version, s.deleted, \(isLatest) AS latest
            FROM seen s LEFT JOIN @.entry e ON e.key = s.key)
        SELECT n, tag, key, version, deleted, latest, (SELECT count(*) FROM seen) FROM judged
        WHERE latest OR n = (SELECT max(n) FROM seen) ORDER BY n LIMIT $2::bigint
        """,
        .changesFiltered: """
        WITH seen AS MATERIALIZED (
            SELECT n, tag, key, version, deleted FROM @.change WHERE n > $1::bigint ORDER BY n LIMIT $2::bigint),
        judged AS MATERIALIZED (
            SELECT s.n, s.tag, s.key, s.version, s.deleted,
                substring(s.key FROM 1 FOR $3::bigint::int) = $4::bytea AND \(isLatest) AS latest
            FROM seen s LEFT JOIN @.entry e ON e.key = s.key)
        SELECT n, tag, key, version, deleted, latest, (SELECT count(*) FROM seen) FROM judged
        WHERE latest OR n = (SELECT max(n) FROM seen) ORDER BY n LIMIT $5::bigint
        """,
        .changesOfKeys: """
        SELECT n, tag, key, version, deleted FROM (
            SELECT c.n, c.tag, c.key, c.version, c.deleted
            FROM @.entry e JOIN @.change c ON c.key = e.key AND c.version = e.version AND c.n > $1::bigint
            WHERE e.key >= $2::bytea AND e.key < $3::bytea
            UNION ALL
            SELECT c.n, c.tag, c.key, c.version, c.deleted FROM @.change c
            WHERE c.deleted AND c.key >= $2::bytea AND c.key < $3::bytea AND c.n > $1::bigint
                AND NOT EXISTS (SELECT FROM @.entry e WHERE e.key = c.key)
                AND NOT EXISTS (SELECT FROM @.change d WHERE d.key = c.key AND d.n > c.n)) AS found
        ORDER BY n LIMIT $4::bigint
        """,
        .mark: """
        INSERT INTO @.mark SELECT clock_timestamp(), n FROM (SELECT n FROM @.numbering ORDER BY n DESC LIMIT 1) AS l
        WHERE NOT EXISTS (
            SELECT FROM @.mark WHERE at > clock_timestamp() - $1::bigint * interval '1 second')
        """,
        // Removes a change if a later change of its key was numbered before the bound, and a deletion if any later
        // change was. So a cursor is valid as long as its next change is younger than the bound.
        .sweep: """
        WITH bound AS MATERIALIZED (
            SELECT at, n FROM @.mark WHERE at < clock_timestamp() - $1::bigint * interval '1 second'
            ORDER BY at DESC LIMIT 1),
        step AS MATERIALIZED (
            SELECT s.n AS old, least(s.n + $2::bigint, (SELECT n FROM bound)) AS new
            FROM @.sweep s WHERE s.id = 0 AND s.n < (SELECT n FROM bound) FOR UPDATE SKIP LOCKED),
        superseded AS (
            DELETE FROM @.change c USING step, @.change d
            WHERE d.n > step.old AND d.n <= step.new AND c.key = d.key AND c.n < d.n),
        deletions AS (
            DELETE FROM @.change c USING step WHERE c.n >= step.old AND c.n < step.new AND c.deleted),
        forgotten AS (DELETE FROM @.mark WHERE at < (SELECT at FROM bound)),
        numberings AS (
            DELETE FROM @.numbering WHERE n < (SELECT n FROM @.numbering ORDER BY n DESC LIMIT 1))
        UPDATE @.sweep SET n = step.new FROM step WHERE id = 0 RETURNING step.new - step.old
        """,
        .latest: "SELECT n, tag FROM @.change ORDER BY n DESC LIMIT 1",
    ]

    private static let defectiveWriteMatching = """
        WITH written AS (
            UPDATE @.entry SET version = $3::bytea, value = $4::bytea
            WHERE key = $1::bytea AND version = $2::bytea RETURNING key, version),
        noted AS (
            INSERT INTO @.waiting (tag, key, version, deleted) SELECT $5::bigint, key, version, false FROM written)
        SELECT version, value FROM @.entry WHERE key = $1::bytea AND NOT EXISTS (SELECT FROM written)
        """
}
#endif
