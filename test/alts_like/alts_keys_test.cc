#include "alts_like/alts_keys.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <string_view>

#include "test/support/buffers.h"

namespace sluice {
namespace {

using test::from_hex;

struct Vector {
  AltsProtocol protocol;
  std::string_view key, counter, plain, authenticated, sealed;
};

constexpr std::string_view kZeroKey =
    "0000000000000000000000000000000001010101010101010101010101010101020202020202020202020202";
constexpr std::string_view kNistKey =
    "feffe9928665731c6d6a8f9467308308fffee8938764721d6c6b8e9566318209fcfdeb908467711e6f688d96";
constexpr std::string_view kNistText =
    "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba"
    "637b39";
constexpr std::string_view kNistWhole =
    "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba"
    "637b391aafd255";
constexpr std::string_view kNistBeside = "feedfacedeadbeeffeedfacedeadbeefabaddad2";

constexpr AltsProtocol kRekey = AltsProtocol::kAes128GcmRekey, kPlain = AltsProtocol::kAes128Gcm;

// Published by other implementations of the protocol, which derived them from NIST's and IEEE's vectors for AES-GCM.
constexpr Vector kVectors[] = {
    {kRekey, kZeroKey, "000000000000000000000000", "", "", "85e873e002f6ebdc4060954eb8675508"},
    {kRekey, kZeroKey, "000000000000000000000000", "00000000000000000000000000000000", "",
     "51e9a8cb23ca2512c8256afff8e72d681aca19a1148ac115e83df4888cc00d11"},
    {kRekey, kNistKey, "cafebabefacedbaddecaf888", kNistWhole, "",
     "1018ed5a1402a86516d6576d70b2ffccca261b94df88b58f53b64dfba435d18b2f6e3b7869f9353d4ac8cf09afb1663daa7b4017e6fc2c177"
     "c"
     "0c087c0df1162129952213cee1bc6e9c8495dd705e1f3d"},
    {kRekey, kNistKey, "cafebabefacedbaddecaf888", kNistText, kNistBeside,
     "1018ed5a1402a86516d6576d70b2ffccca261b94df88b58f53b64dfba435d18b2f6e3b7869f9353d4ac8cf09afb1663daa7b4017e6fc2c177"
     "c"
     "0c087c4764565d077e9124001ddb27fc0848c5"},
    // Keys are not derived from bit 15 of the counter; they are from bits 16 and 63, and not from bit 64.
    {kRekey, kNistKey, "ca7ebabefacedbaddecaf888", kNistText, kNistBeside,
     "e650d3c0fb879327f2d03287fa93cd07342b136215adbca00c3bd5099ec41832b1d18e0423ed26bb12c6cd09debb29230a94c0cee15903656"
     "f"
     "85edb6fc509b1b28216382172ecbcc31e1e9b1"},
    {kRekey, kNistKey, "cafebbbefacedbaddecaf888", kNistText, kNistBeside,
     "c0121e6c954d0767f96630c33450999791b2da2ad05c4190169ccad9ac86ff1c721e3d82f2ad22ab463bab4a0754b7dd68ca4de7ea2531b62"
     "5"
     "eda01f89312b2ab957d5c7f8568dd95fcdcd1f"},
    {kRekey, kNistKey, "cafebabefacedb2ddecaf888", kNistText, kNistBeside,
     "8af37ea5684a4d81d4fd817261fd9743099e7e6a025eaacf8e54b124fb5743149e05cb89f4a49467fe2e5e5965f29a19f99416b0016b54585"
     "d"
     "12553783ba59e9f782e82e097c336bf7989f08"},
    {kRekey, kNistKey, "cafebabefacedbaddfcaf888", kNistText, kNistBeside,
     "fbd528448d0346bfa878634864d407a35a039de9db2f1feb8e965b3ae9356ce6289441d77f8f0df294891f37ea438b223e3bf2bdc53d4c5a7"
     "4"
     "fb680bb312a8dec6f7252cbcd7f5799750ad78"},
    {kRekey, "ad7a2bd03eac835a6f620fdcb506b345ac7b2ad13fad825b6e630eddb407b244af7829d23cae81586d600dde",
     "12153524c0895e81b2c28465",
     "08000f101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f303132333435363738393a0002",
     "d609b1f056637a0d46df998d88e52e00b2c2846512153524c0895e81",
     "db3d25719c6b0a3ca6145c159d5c6ed9aff9c6e0b79f17019ea923b8665ddf52137ad611f0d1bf417a7ca85e45afe106ff9c7569d335d086a"
     "e"
     "6c03f00987ccd6"},
    {kPlain, "11754cd72aec309bf52f7687212e8957", "3c819d9a9bed087615030b65", "", "",
     "250327c674aaf477aef2675748cf6971"},
    {kPlain, "ca47248ac0b6f8372a97ac43508308ed", "ffd2b598feabc9019262d2be", "", "",
     "60d20404af527d248d893ae495707d1a"},
    {kPlain, "7fddb57453c241d03efbed3ac44e371c", "ee283a3fc75575e33efd4887", "d5de42b461646c255c87bd2962d3b9a2", "",
     "2ccda4a5415cb91e135c2a0f78c9b2fdb36d1df9b9d5e596f83e8b7f52971cb3"},
    {kPlain, "ab72c77b97cb5fe9a382d9fe81ffdbed", "54cc7dc2c37ec006bcc6d1da", "007c5e5b3e59df24a7c355584fc1518d", "",
     "0e1bde206a07a9c2c1b65300f8c649972b4401346697138c7a4891ee59867d0c"},
};

uint8_t* bytes_of(std::string& text) { return reinterpret_cast<uint8_t*>(text.data()); }

AltsCounter counter_of(std::string_view hex) {
  AltsCounter counter;
  const std::string bytes = from_hex(hex);
  EXPECT_EQ(bytes.size(), counter.bytes.size());
  std::copy_n(bytes.begin(), counter.bytes.size(), counter.bytes.begin());
  return counter;
}

AltsKeys keys_of(const Vector& vector) {
  AltsKeys::Secret secret{};
  const std::string key = from_hex(vector.key);
  EXPECT_EQ(key.size(), AltsKeys::secret_bytes(vector.protocol));
  std::copy(key.begin(), key.end(), secret.begin());
  const AltsCounter counter = counter_of(vector.counter);
  return AltsKeys(vector.protocol, secret, counter, counter);
}

TEST(AltsKeysTest, PublishedVectors) {
  for (const Vector& vector : kVectors) {
    SCOPED_TRACE(vector.sealed);
    AltsKeys keys = keys_of(vector);
    std::string text = from_hex(vector.plain), beside = from_hex(vector.authenticated), tag(16, '\0');
    const CRYPTO_IOVEC piece{bytes_of(text), bytes_of(text), text.size()};
    const std::span<const uint8_t> authenticated(bytes_of(beside), beside.size());
    keys.seal({&piece, 1}, bytes_of(tag), authenticated);
    EXPECT_EQ(text + tag, from_hex(vector.sealed));
    EXPECT_TRUE(keys.open({&piece, 1}, {bytes_of(tag), tag.size()}, authenticated));
    EXPECT_EQ(text, from_hex(vector.plain));
    EXPECT_EQ(keys.read(), keys.write());
    EXPECT_NE(keys.read(), counter_of(vector.counter));
  }
}

// By another implementation of HKDF, from the key 00 01 ... 2b.
TEST(AltsKeysTest, DerivedKeys) {
  AltsKeys::Secret secret;
  std::iota(secret.begin(), secret.end(), uint8_t{0});
  const auto derived = [&](std::string_view counter) { return AltsKeys::derive(secret, counter_of(counter)); };
  const auto expected = [](std::string_view hex) {
    AltsKeys::AesKey key;
    std::ranges::copy(from_hex(hex), key.begin());
    return key;
  };
  for (const std::string_view first : {"000000000000000000000000", "ffff00000000000000000080"}) {
    EXPECT_EQ(derived(first), expected("4fbb112eda206249ad8f2d78236d40db"));
  }
  EXPECT_EQ(derived("000001000000000000000000"), expected("3361ce969f7741e90c2bee8ec82dc346"));
}

TEST(AltsKeysTest, CountersCount) {
  const auto next = [](std::string_view hex, AltsProtocol protocol) {
    AltsCounter counter = counter_of(hex);
    counter.increment(protocol);
    EXPECT_FALSE(counter.exhausted);
    return counter;
  };
  for (const AltsProtocol protocol : {kRekey, kPlain}) {
    EXPECT_EQ(next("000000000000000000000000", protocol), counter_of("010000000000000000000000"));
    EXPECT_EQ(next("000000000000000000000080", protocol), counter_of("010000000000000000000080"));
    EXPECT_EQ(next("ff0000000000000000000000", protocol), counter_of("000100000000000000000000"));
    EXPECT_EQ(next("42ff00000000000000000000", protocol), counter_of("43ff00000000000000000000"));
    EXPECT_EQ(next("ffffffff0000000000000000", protocol), counter_of("000000000100000000000000"));
    EXPECT_EQ(next("ffffffff0000000000000080", protocol), counter_of("000000000100000000000080"));
  }
  EXPECT_EQ(next("ffffffffff00000000000080", kRekey), counter_of("000000000001000000000080"));
  EXPECT_EQ(AltsCounter::first(false), counter_of("000000000000000000000000"));
  EXPECT_EQ(AltsCounter::first(true), counter_of("000000000000000000000080"));
}

TEST(AltsKeysTest, CountersEnd) {
  for (const std::string_view side : {"00", "80"}) {
    for (const auto& [protocol, low] :
         {std::pair{kPlain, "feffffffff000000000000"}, {kRekey, "feffffffffffffff000000"}}) {
      AltsCounter counter = counter_of(std::string(low) + std::string(side));
      counter.increment(protocol);
      EXPECT_FALSE(counter.exhausted);
      counter.increment(protocol);
      EXPECT_TRUE(counter.exhausted);
      EXPECT_DEATH(counter.increment(protocol), "exhausted");
    }
  }
}

}  // namespace
}  // namespace sluice
