import CCurl
import SyncProtocol

extension TransportError {
    /// An error of libcurl before an exchange has started.
    static func curl(_ message: String) -> TransportError {
        TransportError(.other, mayHaveArrived: false, message: message)
    }

    /// The error of an exchange whose task was cancelled.
    static func cancelled(mayHaveArrived: Bool) -> TransportError {
        TransportError(.cancelled, mayHaveArrived: mayHaveArrived, message: "the task was cancelled")
    }
}

extension TransportError.Kind {
    /// Maps a result code of libcurl (see "libcurl error codes" in its documentation).
    init(_ code: CURLcode) {
        self =
            switch code {
            case CURLE_COULDNT_RESOLVE_HOST, CURLE_COULDNT_RESOLVE_PROXY, CURLE_COULDNT_CONNECT, CURLE_PROXY:
                .unreachable
            // The handshake failed without a certificate error.
            case CURLE_SSL_CONNECT_ERROR: .unreachable
            case CURLE_PEER_FAILED_VERIFICATION, CURLE_SSL_CACERT_BADFILE, CURLE_SSL_ISSUER_ERROR,
                CURLE_SSL_CERTPROBLEM, CURLE_SSL_CRL_BADFILE, CURLE_SSL_INVALIDCERTSTATUS,
                CURLE_SSL_PINNEDPUBKEYNOTMATCH:
                .untrusted
            case CURLE_OPERATION_TIMEDOUT: .timedOut
            case CURLE_GOT_NOTHING, CURLE_SEND_ERROR, CURLE_RECV_ERROR, CURLE_PARTIAL_FILE, CURLE_HTTP2,
                CURLE_HTTP2_STREAM, CURLE_SEND_FAIL_REWIND:
                .interrupted
            // libcurl reports an answer without a header (HTTP/0.9) as CURLE_UNSUPPORTED_PROTOCOL.
            case CURLE_UNSUPPORTED_PROTOCOL, CURLE_WEIRD_SERVER_REPLY, CURLE_URL_MALFORMAT, CURLE_BAD_CONTENT_ENCODING:
                .malformed
            // 100 is CURLE_TOO_LARGE, which older headers do not define.
            case CURLE_FILESIZE_EXCEEDED, CURLcode(rawValue: 100): .tooLarge
            default: .other
            }
    }
}
