// What a peer may send after the handshake: any bytes (it does not have the keys), or any contents sealed with the
// right keys (it does, and is hostile). Whatever comes, the layer ends in one of its states, gives out nothing that was
// not authentic, and holds no chunk when it is gone.
//
// Input: a byte of flags, then as the comments of each read below say.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "alts_like/tls13_record_layer.h"
#include "pool/check.h"
#include "test/support/fuzz_input.h"

namespace sluice {
namespace {

Tls13Secret secret(Tls13Cipher cipher, uint8_t fill) {
  const std::vector<uint8_t> bytes(cipher == Tls13Cipher::kAes256Gcm ? 48 : 32, fill);
  return Tls13Secret::from(cipher, bytes, 0).value();
}

class Fuzz : test::FuzzInput {
 public:
  Fuzz(const uint8_t* data, size_t size) : FuzzInput(data, size) {}

  void run() {
    const uint8_t flags = byte();
    const Tls13Cipher cipher = flags & 1   ? Tls13Cipher::kChaCha20Poly1305
                               : flags & 2 ? Tls13Cipher::kAes256Gcm
                                           : Tls13Cipher::kAes128Gcm;
    Tls13State state;
    state.read = secret(cipher, 1);
    state.write = secret(cipher, 2);
    state.flags.is_client = flags & 4;
    {
      Tls13RecordLayer layer(state);
      Tls13Keys peer(state.read);
      while (!used_up()) step(layer, peer);
      Buffer wire;
      layer.flush(pool_, wire);
      if (layer.open(pool_, Buffer(), opened_) != RecordLayer::Status::kFailed) layer.seal_end(pool_, wire);
    }
    // What came out is a beginning of what was sent as data with the right keys.
    SLUICE_CHECK(opened_.size() <= sent_.size() && std::string_view(sent_).starts_with(opened_.to_string()));
    opened_.clear();
    SLUICE_CHECK(pool_.leaked() == 0);
  }

 private:
  void step(Tls13RecordLayer& layer, Tls13Keys& peer) {
    const uint8_t kind = byte();
    if (kind < 32) {  // Bytes as they are.
      return give(layer, std::string(take(byte())));
    }
    if (kind < 40) return layer.park(pool_);
    if (kind < 48) {
      Buffer wire;
      return layer.flush(pool_, wire);
    }
    if (kind < 56) return peer.update();  // Whether the other side knows or not.
    // A record: its type, how much content (some of it repeated), how much padding.
    const uint8_t type = kind < 160 ? 23 : kind < 200 ? 22 : kind < 220 ? 21 : std::max<uint8_t>(byte(), 1);
    std::string inner(take(byte()));
    if (kind % 8 == 0 && !inner.empty()) inner.resize(inner.size() * (1 + byte()), inner[0]);
    if (type == 23) sent_ += inner;
    inner.push_back(static_cast<char>(type));
    if (kind % 4 == 0) inner.append(byte(), '\0');
    std::string record{'\x17', 3, 3, 0, 0};
    const size_t length = std::min<size_t>(inner.size() + Tls13Keys::kTagBytes, 0xffff);
    record[3] = static_cast<char>(length >> 8);
    record[4] = static_cast<char>(length);
    record += inner + std::string(Tls13Keys::kTagBytes, '\0');
    uint8_t* bytes = reinterpret_cast<uint8_t*>(record.data());
    const CRYPTO_IOVEC piece{bytes + 5, bytes + 5, inner.size()};
    peer.seal({&piece, 1}, {bytes, 5}, bytes + 5 + inner.size());
    give(layer, record);
  }

  // In windows that are cut as the input says.
  void give(Tls13RecordLayer& layer, std::string_view bytes) {
    const size_t cut = 1 + byte() * 8u;
    while (!bytes.empty()) {
      const std::string_view part = bytes.substr(0, cut);
      bytes.remove_prefix(part.size());
      Buffer wire;
      SLUICE_CHECK(wire.append_copy(pool_, part));
      const Buffer shared = cut % 16 == 1 ? wire.clone() : Buffer();
      layer.open(pool_, std::move(wire), opened_);
    }
  }

  ChunkPool pool_{{.budget_bytes = size_t{64} << 20}};
  ChunkPool::Use use_{&pool_};
  std::string sent_;
  Buffer opened_;
};

}  // namespace
}  // namespace sluice

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  sluice::Fuzz(data, size).run();
  return 0;
}
