// Support for tests of the TLS 1.3 record layer.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <string_view>
#include <utility>

#include "alts_like/tls13_record_layer.h"
#include "sluice/buffer.h"

namespace sluice::test {

inline constexpr Tls13Cipher kTls13Ciphers[] = {Tls13Cipher::kAes128Gcm, Tls13Cipher::kAes256Gcm,
                                                Tls13Cipher::kChaCha20Poly1305};
inline std::string tls13_cipher_name(const ::testing::TestParamInfo<Tls13Cipher>& cipher) {
  return cipher.param == Tls13Cipher::kAes128Gcm   ? "Aes128Gcm"
         : cipher.param == Tls13Cipher::kAes256Gcm ? "Aes256Gcm"
                                                   : "ChaCha20Poly1305";
}

inline std::string random_text(size_t size, uint32_t seed) {
  std::mt19937 random(seed);
  std::string text(size, '\0');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

class Tls13Test : public ::testing::Test {
 protected:
  ~Tls13Test() override { EXPECT_EQ(pool_.leaked(), 0u); }

  // In chunks of their own, cut at random if a seed is given.
  Buffer buffer_of(std::string_view text, std::mt19937* random = nullptr) {
    Buffer buffer;
    while (!text.empty()) {
      const size_t most = std::min<size_t>(text.size(), 16384);
      const size_t piece = random ? 1 + (*random)() % most : most;
      Lease lease = Lease::allocate(pool_, piece);
      lease.grow_back(piece);
      std::memcpy(lease.data(), text.data(), piece);
      buffer.append(std::move(lease));
      text.remove_prefix(piece);
    }
    return buffer;
  }
  std::string sealed(RecordLayer& layer, std::string_view text, std::mt19937* random = nullptr) {
    Buffer wire;
    layer.seal(pool_, buffer_of(text, random), wire);
    return wire.to_string();
  }
  // Opens all bytes at once; their content is appended to `opened_`.
  RecordLayer::Status open(RecordLayer& layer, std::string_view wire, std::mt19937* random = nullptr) {
    Buffer plain;
    const RecordLayer::Status status = layer.open(pool_, buffer_of(wire, random), plain);
    opened_ += plain.to_string();
    return status;
  }
  std::string flushed(RecordLayer& layer) {
    Buffer wire;
    layer.flush(pool_, wire);
    return wire.to_string();
  }

  ChunkPool pool_{{.budget_bytes = size_t{64} << 20}};
  ChunkPool::Use use_{&pool_};
  std::string opened_;
};

class Tls13CipherTest : public Tls13Test, public ::testing::WithParamInterface<Tls13Cipher> {};

}  // namespace sluice::test
