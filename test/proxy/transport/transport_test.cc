#include "proxy/transport/transport.h"

#include <gtest/gtest.h>
#include <openssl/digest.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>

#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "alts_like/tls_handshake.h"
#include "test/alts_like/ssl_pair.h"
#include "test/net/loop.h"

namespace sluice {
namespace {

/// Records the calls of a transport.
struct Owner final : Transport::Owner {
  void on_secured(Transport& transport, const Agreement&) override {
    ++secured;
    transport.release_arrived();
  }
  void on_insecure(Transport&, std::string_view why) override { insecure.emplace_back(why); }
  void on_data(Transport& transport, Buffer&& data) override {
    received += data.to_string();
    windows += data.window_count();
    data.clear();
    if (!response.empty()) {
      Buffer bytes;
      SLUICE_CHECK(bytes.append_copy(transport.socket().worker().pool(), response));
      transport.send(std::move(bytes));
    }
  }
  void on_end(Transport&, bool cut) override { ++ends, truncated = cut; }
  void on_sent(Transport&) override {}
  void on_error(Transport&, int) override {}
  void on_record_error(Transport&, std::string_view why) override { record_errors.emplace_back(why); }
  void on_closed(Transport&) override { closed = true; }

  int secured = 0, ends = 0;
  size_t windows = 0;  ///< Windows of all data received.
  bool closed = false, truncated = false;
  std::string response;  ///< Sent whenever data arrives.
  std::string received;
  std::vector<std::string> insecure, record_errors;
};

class TransportTest : public ::testing::Test {
 protected:
  TransportTest() : transport_(loop_.worker(), owner_) {
    const test::Pair pair = test::tcp_pair();
    transport_.adopt(pair.ours, AF_INET);
    peer_ = test::Peer(pair.theirs);
  }
  ~TransportTest() override {
    transport_.abort();
    loop_.until([this] { return owner_.closed; });
  }
  ChunkPool& pool() { return loop_.worker().pool(); }

  test::Loop loop_;
  Owner owner_;
  Transport transport_;
  test::Peer peer_;
};

// ---- During a signature ----

/// A key whose signature the test controls.
class SlowKey {
 public:
  SlowKey() : context_(SSL_CTX_new(TLS_method())) {
    now_ = false;
    SLUICE_CHECK(SSL_CTX_use_certificate(context_.get(), identity().certificate.get()) == 1);
    SSL_CTX_set_private_key_method(context_.get(), &kMethod);
  }
  SSL_CTX* context() { return context_.get(); }
  static void sign() { now_ = true; }

 private:
  static const test::Identity& identity() {
    static const test::Identity made;
    return made;
  }
  static ssl_private_key_result_t begin(SSL*, uint8_t*, size_t*, size_t, uint16_t algorithm, const uint8_t* in,
                                        size_t size) {
    algorithm_ = algorithm;
    message_.assign(in, in + size);
    return ssl_private_key_retry;
  }
  static ssl_private_key_result_t complete(SSL*, uint8_t* out, size_t* size, size_t most) {
    if (!now_) return ssl_private_key_retry;
    bssl::ScopedEVP_MD_CTX context;
    *size = most;
    return EVP_DigestSignInit(context.get(), nullptr, SSL_get_signature_algorithm_digest(algorithm_), nullptr,
                              identity().key.get()) == 1 &&
                   EVP_DigestSign(context.get(), out, size, message_.data(), message_.size()) == 1
               ? ssl_private_key_success
               : ssl_private_key_failure;
  }
  static constexpr SSL_PRIVATE_KEY_METHOD kMethod = {&begin, nullptr, &complete};

  static inline bool now_ = false;
  static inline uint16_t algorithm_ = 0;
  static inline std::vector<uint8_t> message_;
  bssl::UniquePtr<SSL_CTX> context_;
};

class SigningTest : public TransportTest {
 protected:
  SigningTest()
      : client_context_(SSL_CTX_new(TLS_method())), client_(client_context_.get(), TlsHandshake::Side::kClient) {
    Handshaking& handshaking = transport_.prepare_handshake();
    step_ = &handshaking.step;
    handshaking.handshake = std::make_unique<TlsHandshake>(key_.context(), TlsHandshake::Side::kServer);
    transport_.await_handshake(Buffer());
    Buffer hello;
    client_.advance(pool(), Buffer(), hello);
    peer_.send(hello.to_string());
    loop_.until([this] { return transport_.awaited() != "the peer"; });
  }
  // What KeySigner does when it has a signature.
  void sign() {
    SlowKey::sign();
    loop_.worker().yielding_tasks().push(*step_);
  }

  SlowKey key_;
  bssl::UniquePtr<SSL_CTX> client_context_;
  TlsHandshake client_;
  YieldingTask* step_;
};

TEST_F(SigningTest, ContinuesWithTheSignature) {
  EXPECT_EQ(transport_.awaited(), "a signature by its own key");
  EXPECT_FALSE(transport_.socket().reading());
  sign();
  loop_.until([this] { return peer_.read() > 0; });
  Buffer flight, finished;
  SLUICE_CHECK(flight.append_copy(pool(), peer_.received));
  EXPECT_EQ(client_.advance(pool(), std::move(flight), finished), TlsHandshake::Status::kDone) << client_.error();
  peer_.send(finished.to_string());
  loop_.until([this] { return owner_.secured == 1; });
}

// Defect: reading continued while a key signed, and the data was kept: a client could send bytes, into memory without a
// bound, until a helper thread had made the signature.
TEST_F(SigningTest, ReadingStopsDuringASignature) {
  const std::string block(64 * 1024, 'x');
  size_t sent = 0, idle = 0;
  constexpr size_t kMuch = size_t{64} << 20;  // More than sockets hold.
  while (sent < kMuch && idle < 20) {
    const size_t now = peer_.send_some(block);
    sent += now;
    idle = now > 0 ? 0 : idle + 1;
    loop_->turn(1);
  }
  EXPECT_LT(sent, kMuch);
}

// Defect: an end that arrived while a key signed ended the handshake at once, as if no response followed.
TEST_F(SigningTest, EndWaitsForTheSignature) {
  peer_.shutdown_write();
  loop_.settle();
  EXPECT_TRUE(owner_.insecure.empty());
  sign();
  loop_.until([this] { return !owner_.insecure.empty(); });
  EXPECT_EQ(owner_.insecure, std::vector<std::string>{""});
  loop_.until([this] { return peer_.read() > 0; });
}

// ---- Records ----

/// A layer whose results the test sets.
struct ScriptedResult {
  RecordLayer::Status status = RecordLayer::Status::kOpen;
  bool owes_alert = false, has_authenticated_end = true, in_record = false;
  int seals_after_failure = 0, tickets_taken = 0;
  size_t overhead_bytes = 0;  ///< If not 0: each record has this many bytes, and then one of data.
};
class ScriptedLayer final : public RecordLayer {
 public:
  explicit ScriptedLayer(ScriptedResult& result) : result_(result) {}
  Status open(ChunkPool&, Buffer&& wire, Buffer& plain) override {
    if (result_.overhead_bytes == 0) plain.append(std::move(wire));
    rest_.append(std::move(wire));
    while (result_.overhead_bytes > 0 && rest_.size() > result_.overhead_bytes) {
      rest_.trim_front(result_.overhead_bytes);
      plain.append(rest_.split_front(1));
    }
    return result_.status;
  }
  void seal(ChunkPool&, Buffer&& plain, Buffer& wire) override {
    if (result_.status == Status::kFailed) ++result_.seals_after_failure;
    wire.append(std::move(plain));
  }
  bool has_output() const override { return result_.owes_alert; }
  void flush(ChunkPool& pool, Buffer& wire) override {
    if (std::exchange(result_.owes_alert, false)) SLUICE_CHECK(wire.append_copy(pool, "alert"));
  }
  void seal_end(ChunkPool& pool, Buffer& wire) override { SLUICE_CHECK(wire.append_copy(pool, "end")); }
  Buffer take_tickets() override {
    ++result_.tickets_taken;
    return {};
  }
  std::string_view error() const override { return "told so"; }
  bool has_authenticated_end() const override { return result_.has_authenticated_end; }
  bool in_record() const override { return result_.in_record; }
  bool write_state(SecretBytes&) override { return false; }
  void park(ChunkPool&) override {}

 private:
  ScriptedResult& result_;
  Buffer rest_;  // A part of a record.
};

/// Done with the first byte.
class ShortHandshake final : public Handshake {
 public:
  explicit ShortHandshake(ScriptedResult& result) : result_(result) {}
  Status advance(ChunkPool&, Buffer&& received, Buffer&) override {
    received.clear();
    return Status::kDone;
  }
  const std::string& error() const override { return error_; }
  Agreement agreement() const override { return {}; }
  std::unique_ptr<RecordLayer> finish() override { return std::make_unique<ScriptedLayer>(result_); }

 private:
  ScriptedResult& result_;
  std::string error_;
};

class RecordsTest : public TransportTest {
 protected:
  RecordsTest() {
    transport_.prepare_handshake().handshake = std::make_unique<ShortHandshake>(result_);
    transport_.await_handshake(Buffer());
    peer_.send("hello");
    loop_.until([this] { return owner_.secured == 1; });
  }
  ScriptedResult result_;
};

// Defect: data before a broken record in the same bytes was given to the owner while the transport still accepted its
// response, which was sealed after the alert.
TEST_F(RecordsTest, NothingIsSealedAfterAnAlert) {
  owner_.response = "answer";
  result_.status = RecordLayer::Status::kFailed;
  result_.owes_alert = true;
  peer_.send("data");
  loop_.until([this] { return !owner_.record_errors.empty(); });
  EXPECT_EQ(owner_.received, "data");
  transport_.shutdown_write();
  loop_.until([this] { return peer_.read(), peer_.ended; });
  EXPECT_EQ(peer_.received, "alert");
  EXPECT_EQ(result_.seals_after_failure, 0);
}

// Defect: tickets were read only until the first had arrived; later ones piled up in the record layer, up to 64 KiB for
// each connection with an endpoint, until the connection was idle.
TEST_F(RecordsTest, TicketsNeverPileUp) {
  const int before = result_.tickets_taken;
  peer_.send("data");
  loop_.until([this] { return owner_.received == "data"; });
  EXPECT_GT(result_.tickets_taken, before);
}

// Defect: each record of one byte in a receive became a window of its own, which pinned the record and more memory than
// it carried: 41 MiB for the 1 MiB that one connection may queue, and 30 connections filled the budget of 256 MiB.
TEST_F(RecordsTest, ManySmallRecordsInOneReceiveArePacked) {
  constexpr size_t kOverhead = 22, kRecords = 2000;
  result_.overhead_bytes = kOverhead;
  std::string wire, expected;
  for (size_t i = 0; i < kRecords; ++i) {
    const char byte = static_cast<char>('a' + i % 26);
    wire += std::string(kOverhead, '-') + byte;
    expected += byte;
  }
  owner_.windows = 0;
  peer_.send(wire);
  loop_.until([&] { return owner_.received.size() >= kRecords; });
  EXPECT_EQ(owner_.received, expected);
  EXPECT_LT(owner_.windows, kRecords / 50);
}

// Defect: a protocol without a close message of its own (ALTS with the service) was cut in the middle of a frame, and
// the stream looked complete.
TEST_F(RecordsTest, EndWithinARecordIsACut) {
  result_.has_authenticated_end = false;
  result_.in_record = true;
  peer_.shutdown_write();
  loop_.until([this] { return owner_.ends == 1; });
  EXPECT_TRUE(owner_.truncated);
}

TEST_F(RecordsTest, EndBetweenRecordsWithoutCloseMessages) {
  result_.has_authenticated_end = false;
  peer_.shutdown_write();
  loop_.until([this] { return owner_.ends == 1; });
  EXPECT_FALSE(owner_.truncated);
}

}  // namespace
}  // namespace sluice
