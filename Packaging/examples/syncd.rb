# An example that has not been tried with Homebrew. Replace the address and the checksum by those of a release; the
# checksum is in SHA256SUMS.
class Syncd < Formula
  desc "Keeps purchases in sync across devices"
  homepage "https://entitlementsync.invalid"
  url "https://entitlementsync.invalid/releases/EntitlementSync-0.1.0.tar.gz"
  sha256 "0000000000000000000000000000000000000000000000000000000000000000"
  license "Apache-2.0"

  depends_on xcode: ["26.0", :build]
  depends_on macos: :sequoia

  def install
    system "swift", "build", "--disable-sandbox", "--configuration", "release", "--product", "syncd"
    bin.install ".build/release/syncd"
    generate_completions_from_executable(bin/"syncd", "--generate-completion-script")
    system "python3", "-B", "Packaging/man.py", "--syncd", bin/"syncd", "--version", version.to_s,
           "--date", time.strftime("%F"), "--output", "."
    man1.install Dir["*.1"]
  end

  service do
    run [opt_bin/"syncd", "serve", "--store", "sqlite:#{var}/syncd/store.sqlite"]
    keep_alive successful_exit: false
    error_log_path var/"log/syncd.log"
  end

  def post_install
    (var/"syncd").mkpath
    chmod 0700, var/"syncd"
  end

  test do
    assert_match "syncd #{version}", shell_output("#{bin}/syncd --version")
  end
end
