import Entitlements
import SyncCore

// Acts, which a token of the scope `support` may do.
extension AssistantTool {
    private static let store = ToolField(
        "store", .text, "The store of the purchase: app-store, google-play, stripe, support or reported.",
        isRequired: true)
    private static let transaction = ToolField(
        "transaction", .text, "The transaction id of the purchase.", isRequired: true)

    static let acts: [AssistantTool] = [
        act(
            .grant, "grant_access", "Grant access",
            "Gives a customer access: exactly one of entitlement, group and product, and for paid time one of until "
                + "and for.",
            [
                ToolField("entitlement", .text, "The entitlement to give."),
                ToolField("group", .text, "The group of products to give time in."),
                ToolField("product", .text, "The product to give."),
                ToolField("until", .text, "The end of the time, such as 2026-12-24T18:00:00Z."),
                ToolField("for", .text, "The length of the time, an ISO 8601 duration such as P1M."),
                ToolField("level", .number, "The level in an auto-renewable group.", range: 1...1_000), environment,
            ]),
        act(
            .refund, "refund_purchase", "Refund a purchase",
            "Takes the access that a purchase gives, or gives it back with reinstate. It moves no money.",
            [
                store, transaction, ToolField("date", .text, "The date of the refund, by default now."),
                ToolField("reinstate", .flag, "True to give the access back."), environment,
            ]),
        act(
            .transfer, "transfer_purchase", "Transfer a purchase",
            "Moves a purchase with its renewals to another account.",
            [
                store, transaction,
                ToolField("to", .text, "The account that gets the purchase.", isRequired: true), environment,
            ]),
        act(
            .sessions, "end_sessions", "End sessions",
            "Logs a customer out on all devices, or ends one session.",
            [ToolField("session", .text, "The id of one session; without it, all end.")]),
        act(
            .recovery, "create_recovery_code", "Create a recovery code",
            "Creates a single-use code with which the customer sets a new password. The code is a secret for the "
                + "customer only.", []),
        act(.erasure, "erase_customer", "Erase a customer", "Erases an account for good. It cannot be undone.", []),
    ]

    private static func act(
        _ kind: OperatorAct.Kind, _ name: String, _ title: String, _ description: String, _ fields: [ToolField]
    ) -> AssistantTool {
        let confirmation = ToolField(
            "confirmation", .text,
            "Absent for a dry run. To act, the confirmation of a dry run with the same arguments, after the operator "
                + "has agreed to its result. It is valid once, for 10 minutes, and while the customer does not change.")
        let reason = ToolField(
            "reason", .text, "One line for the audit list, such as the ticket's number.", isRequired: true)
        return AssistantTool(
            name: name, title: title,
            description: description
                + " Without confirmation it is a dry run: it shows the access before and after, and writes nothing.",
            scope: .support, input: [account] + fields + [reason, confirmation],
            output: [
                ToolField("act", .text, "The act."), ToolField("dryRun", .flag, "True if nothing was written."),
                ToolField("repeated", .flag, "True if the act had been done already with this confirmation."),
                ToolField("date", .text, "The date of the act."), ToolField("account", .text, "The customer."),
                ToolField("before", .object, "What differs, as it was before."),
                ToolField("after", .object, "What differs, as it is after."),
                ToolField("to", .object, "The account that gets the purchase, with before and after."),
                ToolField("transaction", .object, "The purchase that was given, taken or moved."),
                ToolField("expires", .text, "The end of paid time after a grant."),
                ToolField("takenFrom", .list, "The accounts that lose a purchase."),
                ToolField("recovery_code", .text, "The recovery code."),
                ToolField("warnings", .list, "What the operator should know."),
                ToolField("entry", .number, "The number of the entry in the audit list.", isNullable: true),
                ToolField("confirmation", .text, "The value that confirms this act."),
                ToolField("confirmationExpires", .text, "The end of the confirmation's validity."),
            ]
        ) { service, arguments, call in
            try await service.act(kind, name, arguments, by: call.caller)
        }
    }
}

extension EntitlementService {
    /// Does an act that `arguments` confirm, or shows what it would do.
    fileprivate func act(
        _ kind: OperatorAct.Kind, _ name: String, _ arguments: ToolArguments, by caller: OperatorCaller
    ) async throws -> ToolResult {
        let account = arguments["account"] ?? ""
        let members = arguments.values.filter { !["account", "confirmation"].contains($0.key) }
        let act = try OperatorAct(kind, on: account, members, by: caller)
        let acts = OperatorActs(self)
        // An erasure waits for the requests that are counted.
        let epoch = kind == .erasure ? nil : requests.start()
        defer { if let epoch { requests.finish(epoch) } }
        try await keys.refresh()
        let confirmations = ActConfirmations(acts: acts, key: keys.secret, catalog: configuration.catalogJSON)
        do {
            guard let text = arguments["confirmation"] else {
                let now = host.now()
                let (outcome, confirmation) = try await confirmations.tried(act, by: caller, now: now)
                return ToolResult(
                    summary: "Dry run, nothing is written. \(outcome.summary)",
                    next: [
                        "show this result to the operator and, after the operator agrees, call \(name) with the same "
                            + "arguments and this confirmation"
                    ],
                    members: outcome.changedMembers + [
                        ("confirmation", .string(confirmation)),
                        ("confirmationExpires", .instant(now + ActConfirmations.lifetime)),
                    ])
            }
            let (outcome, isRepeated) = try await confirmations.done(act, by: caller, text, now: host.now())
            return ToolResult(
                summary: (isRepeated ? "This was done already, once. " : "Done. ") + outcome.summary,
                next: kind == .erasure ? [] : ["show_customer with account \(account.quoted)"],
                members: outcome.changedMembers + [("repeated", .bool(isRepeated))])
        } catch let error as SupportError {
            throw RequestError(error)
        }
    }
}

extension ActOutcome {
    /// The members of the answer, with the parts of the states that differ.
    fileprivate var changedMembers: [(String, JSON)] {
        func changed(_ members: [(String, JSON)]) -> [(String, JSON)] {
            let state = JSON.object(members)
            let (before, after) = (state["before"] ?? .null, state["after"] ?? .null)
            return members.map { name, value in
                switch name {
                case "before": (name, Self.difference(before, after))
                case "after": (name, Self.difference(after, before))
                case "to": (name, .object(changed(value.orderedMembers)))
                default: (name, value)
                }
            }
        }
        // The id of a grant depends on the confirmation.
        let isPlanned = entry == nil && transaction?.reference.id.rawValue.hasPrefix("act-0000") == true
        return changed(json.orderedMembers.filter { !isPlanned || $0.0 != "transaction" })
    }

    /// The act and its effect in a sentence.
    fileprivate var summary: String {
        func effect(_ state: [(String, JSON)]) -> String {
            let state = JSON.object(state)
            let (before, after) = (state["before"] ?? .null, state["after"] ?? .null)
            var parts: [String] = []
            let access = Set((before["access"]?.members ?? [:]).keys).union((after["access"]?.members ?? [:]).keys)
            for name in access.sorted().prefix(10) {
                let (old, new) = (before["access"]?[name] ?? .null, after["access"]?[name] ?? .null)
                parts.append("\(name): \(old.accessText) before, \(new.accessText) after")
            }
            for (name, value) in before.orderedMembers where name != "access" {
                parts.append("\(name): \(value.line) before, \((after[name] ?? .null).line) after")
            }
            let name = state["account"]?.string?.quoted ?? ""
            return "\(name): " + (parts.isEmpty ? "nothing changes" : parts.joined(separator: "; ")) + "."
        }
        let members = changedMembers
        let receiver = members.first { $0.0 == "to" }.map { " " + effect($0.1.orderedMembers) } ?? ""
        return "\(act.prefix(1).uppercased() + act.dropFirst()) for \(effect(members))\(receiver)"
    }
}
