#if Evidence
internal import Crypto
internal import Entitlements

/// The header `Stripe-Signature`: a time and signatures by the endpoint's secrets.
struct StripeSignature {
    /// Stripe sends one signature for each active secret, and a rotation has two.
    private static let maximumCount = 16
    private static let maximumByteCount = 4_096

    /// The time of sending in seconds since 1970, as written.
    let time: String
    /// The time of sending.
    let date: Timestamp
    /// The signatures of the scheme `v1`. Other schemes are ignored.
    let codes: [[UInt8]]

    /// Parses `t=TIME,v1=HEX,…`.
    ///
    /// - Throws: ``EvidenceError`` with the check `header` or `signed-date`.
    init(_ header: String) throws(EvidenceError) {
        guard header.utf8.count <= Self.maximumByteCount else {
            throw EvidenceError(.header, "Stripe-Signature has more than \(Self.maximumByteCount) bytes")
        }
        var times: [Substring] = []
        var codes: [[UInt8]] = []
        for element in header.split(separator: ",", omittingEmptySubsequences: false) {
            let parts = element.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard parts.count == 2 else { throw EvidenceError(.header, "Stripe-Signature must be t=TIME,v1=HEX") }
            switch parts[0] {
            case "t": times.append(parts[1])
            case "v1":
                guard let code = Self.bytes(hexadecimal: parts[1]) else {
                    throw EvidenceError(.header, "v1 in Stripe-Signature must be 64 hexadecimal digits")
                }
                codes.append(code)
            default: continue
            }
        }
        guard times.count == 1, let text = times.first else {
            throw EvidenceError(.header, "Stripe-Signature must have one time t, not \(times.count)")
        }
        guard (1...Self.maximumCount).contains(codes.count) else {
            throw EvidenceError(
                .header, "Stripe-Signature must have 1 to \(Self.maximumCount) signatures v1, not \(codes.count)")
        }
        guard let seconds = Int64(text), String(seconds) == text, (0...253_402_300_799).contains(seconds) else {
            throw EvidenceError(
                .signedDate, "t in Stripe-Signature must be seconds since 1970, not \"\(String(text).singleLine)\"")
        }
        time = String(text)
        date = Timestamp(milliseconds: seconds * 1_000)
        self.codes = codes
    }

    /// Checks that the signature was made within 5 minutes of `now`, so that an event cannot be replayed later.
    func checkDate(now: Timestamp) throws(EvidenceError) {
        try checkNotAhead(date, of: now, "t in Stripe-Signature")
        guard now.milliseconds - date.milliseconds <= EvidenceLimits.clockTolerance else {
            throw EvidenceError(.signedDate, "t in Stripe-Signature is \(date), more than 5 minutes before \(now)")
        }
    }

    /// Returns `true` if one of the signatures is by one of `secrets`. All are compared, in constant time.
    func isValid(for body: [UInt8], secrets: [SymmetricKey]) -> Bool {
        let signed = Array("\(time).".utf8) + body
        var isValid = false
        for secret in secrets {
            let expected = HMAC<SHA256>.authenticationCode(for: signed, using: secret)
            for code in codes where expected == code { isValid = true }
        }
        return isValid
    }

    private static func bytes(hexadecimal text: Substring) -> [UInt8]? {
        let digits = text.compactMap { $0.isASCII ? $0.hexDigitValue.map(UInt8.init) : nil }
        guard text.utf8.count == 64, digits.count == 64 else { return nil }
        return stride(from: 0, to: 64, by: 2).map { digits[$0] << 4 | digits[$0 + 1] }
    }
}
#endif
