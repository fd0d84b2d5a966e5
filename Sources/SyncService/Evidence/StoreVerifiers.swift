package import StoreEvidence

// The verifiers of StoreEvidence, as the service uses them.

extension AppStoreVerifier: AppStoreVerification {}
extension GooglePlayVerifier: GooglePlayVerification {}
extension StripeVerifier: StripeVerification {}
