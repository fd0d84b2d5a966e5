import HTTPTypes
import SyncCore
import SyncProtocol
import Testing

@Suite("Conditions of requests")
struct ConditionTests {
    private let version = EntryVersion(bytes: [0, 0x1F, 0xFF])

    @Test("A version becomes a strong tag, and the tag becomes the same version")
    func tags() {
        let tag = EntityTag(version)
        #expect(tag.description == "\"001fff\"" && tag.version == version && !tag.isWeak)
        #expect(TagCondition(tag.description) == .tags([tag]))
    }

    @Test(
        "A tag that is not a version is read as a tag without a version",
        arguments: [
            "\"\"", "\"0\"", "\"0G\"", "\"1F\"", "W/\"1f\"", "\"é1\"", "\"" + String(repeating: "0", count: 130) + "\"",
        ])
    func foreignTags(field: String) throws {
        guard case .tags(let tags) = TagCondition(field) else {
            Issue.record("\(field) is not a list of tags")
            return
        }
        #expect(tags.count == 1 && tags[0].version == nil)
    }

    @Test("Lists are read as RFC 9110 defines them, with commas in tags and empty elements")
    func lists() throws {
        #expect(TagCondition(" * ") == .anything)
        guard case .tags(let tags) = TagCondition(", \"a,b\" ,,\tW/\"c\",") else {
            Issue.record("not a list of tags")
            return
        }
        #expect(tags.map(\.text) == ["a,b", "c"] && tags.map(\.isWeak) == [false, true])
    }

    @Test(
        "A malformed field is rejected",
        arguments: [
            "", " ", ",", "a", "\"a", "a\"", "\"a\" \"b\"", "*, \"a\"", "\"a\", *", "w/\"a\"", "\"a b\"", "\"a\"x",
        ])
    func malformed(field: String) {
        #expect(TagCondition(field) == nil)
        #expect(throws: ConditionError.self) { try WriteCondition([.ifMatch: field], isOverwriting: false) }
    }

    @Test("Each precondition survives the way over the wire")
    func preconditions() throws {
        for precondition in [Precondition.any, .absent, .matches(version)] {
            let (field, query) = precondition.wire
            var fields = HTTPFields()
            if let field { fields.append(field) }
            #expect(
                try WriteCondition(fields, isOverwriting: query == WriteCondition.overwriting)
                    == .precondition(precondition))
        }
    }

    @Test("If-Match may require any entry, or one of several versions")
    func others() throws {
        #expect(try WriteCondition([.ifMatch: "*"], isOverwriting: false) == .present)
        #expect(
            try WriteCondition([.ifMatch: "\"001fff\", \"02\""], isOverwriting: false)
                == .oneOf([version, EntryVersion(bytes: [2])]))
        #expect(try WriteCondition([.ifMatch: "W/\"001fff\""], isOverwriting: false) == .oneOf([]))
        #expect(try WriteCondition([.ifMatch: "\"of-somebody-else\""], isOverwriting: false) == .oneOf([]))
    }

    @Test("A missing condition and contradictory conditions are different errors")
    func missing() {
        #expect(throws: ConditionError.missing) { try WriteCondition([:], isOverwriting: false) }
        #expect(throws: ConditionError.missing) { try WriteCondition([:], isOverwriting: false) }
        for fields in [[.ifMatch: "*", .ifNoneMatch: "*"], [.ifNoneMatch: "\"02\""]] as [HTTPFields] {
            let error = #expect(throws: ConditionError.self) { try WriteCondition(fields, isOverwriting: false) }
            #expect(error != .missing)
        }
        let error = #expect(throws: ConditionError.self) { try WriteCondition([.ifMatch: "*"], isOverwriting: true) }
        #expect(error != .missing)
    }
}
