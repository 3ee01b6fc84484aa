// The records of RFC 8448's traces that are sealed with keys of application data: all of section 3, and those of
// section 4 (the resumed connection; its early data is not ours to open).
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "alts_like/tls13_record_layer.h"
#include "test/alts_like/tls13_fixture.h"

namespace sluice {
namespace {

using Status = RecordLayer::Status;

std::string from_hex(std::string_view text) {
  std::string bytes;
  for (size_t i = 0; i < text.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(std::string(text.substr(i, 2)), nullptr, 16)));
  }
  return bytes;
}
Tls13Secret secret(std::string_view hex) {
  const std::string bytes = from_hex(hex);
  return Tls13Secret::from(Tls13Cipher::kAes128Gcm, {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, 0)
      .value();
}

struct Trace {
  const char *client_secret, *server_secret;  // "c ap traffic", "s ap traffic"
  const char* ticket;                         // The server's first record, if there is one.
  const char *client_data, *server_data;      // Bytes 0 to 49.
  const char *client_end, *server_end;        // close_notify.
};

constexpr Trace kSection3 = {
    "9e40646ce79a7f9dc05af8889bce6552875afa0b06df0087f792ebb7c17504a5",
    "a11af9f05531f856ad47116b45a950328204b4f44bfb6b3a4b4f1f3fcb631643",
    "17030300de3a6b8f90414a97d6959c3487680de5134a2b240e6cffac116e95d41d6af8f6b580dcf3d11d63c758db289a01594025"
    "2f55713e061dc13e078891a38efbcf5753ad8ef170ad3c7353d16d9da773b9ca7f2b9fa1b6c0d4a3d03f75e09c30ba1e62972ac4"
    "6f75f7b981be63439b2999ce13064615139891d5e4c5b406f16e3fc181a77ca475840025db2f0a77f81b5ab05b94c01346755f69"
    "232c86519d86cbeeac87aac347d143f9605d64f650db4d023e70e952ca49fe5137121c74bc2697687e248746d6df353005f3bce1"
    "8696129c8153556b3b6c6779b37bf15985684f",
    "1703030043a23f7054b62c94d0affafe8228ba55cbefacea42f914aa66bcab3f2b9819a8a5b46b395bd54a9a20441e2b62974e1f5a"
    "6292a2977014bd1e3deae63aeebb21694915e4",
    "17030300432e937e11ef4ac740e538ad36005fc4a46932fc3225d05f82aa1b36e30efaf97d90e6dffc602dcb501a59a8fcc49c4bf2"
    "e5f0a21c0047c2abf332540dd032e167c2955d",
    "1703030013c9872760655666b74d7ff1153efd6db6d0b0e3",
    "1703030013b58fd67166ebf599d24720cfbe7efa7a8864a9",
};
constexpr Trace kSection4 = {
    "2abbf2b8e381d23dbebe1dd2a7d16a8bf484cb4950d23fb7fb7fa8547062d9a1",
    "cc21f1bf8feb7dd5fa505bd9c4b468a9984d554a993dc49e6d285598fb672691",
    "",
    "1703030043b1cebce242aa201be9ae5e1cb2a9aa4b33d4e866af1edb068919237741aa031d7a74d491c99b9d4e232b74206bc6fbaa"
    "04fe78be44a9b4f54320a17eb76992afac3103",
    "1703030043275e9f20acff57bc000657d3867df039cccf79047884cf75771746f740b5a83f462a0954c3581393a203a25a7dd14141"
    "ef1a37900cdb62ff62dee1ba39ab2590cbf194",
    "17030300130facce3246bdfc6369838d6a82ae6de5d422dc",
    "17030300135b18af444e8e1eec7158fb62d8f2577d37ba5d",
};

class Rfc8448 : public test::Tls13Test, public ::testing::WithParamInterface<const Trace*> {
 protected:
  // One end: what it opens, and the same bytes when it seals.
  void expect(Tls13RecordLayer& layer, std::string_view data_in, std::string_view end_in, std::string_view data_out,
              std::string_view end_out) {
    std::string payload;
    for (char c = 0; c < 50; ++c) payload.push_back(c);
    EXPECT_EQ(open(layer, from_hex(data_in)), Status::kOpen) << layer.error();
    EXPECT_EQ(opened_, payload);
    EXPECT_EQ(sealed(layer, payload), from_hex(data_out));
    EXPECT_EQ(open(layer, from_hex(end_in)), Status::kEnded) << layer.error();
    Buffer end;
    layer.seal_end(pool_, end);
    EXPECT_EQ(end.to_string(), from_hex(end_out));
  }
};
INSTANTIATE_TEST_SUITE_P(Sections, Rfc8448, ::testing::Values(&kSection3, &kSection4),
                         [](const auto& trace) { return trace.param == &kSection3 ? "Section3" : "Section4"; });

TEST_P(Rfc8448, AsClient) {
  const Trace& trace = *GetParam();
  Tls13State state;
  state.read = secret(trace.server_secret);
  state.write = secret(trace.client_secret);
  state.flags.is_client = true;
  Tls13RecordLayer layer(state);
  if (*trace.ticket != 0) {
    EXPECT_EQ(open(layer, from_hex(trace.ticket)), Status::kOpen) << layer.error();
    const std::string ticket = layer.take_tickets().to_string();
    EXPECT_EQ(ticket.size(), 205u);
    EXPECT_EQ(ticket.substr(0, 8), from_hex("040000c90000001e"));
  }
  expect(layer, trace.server_data, trace.server_end, trace.client_data, trace.client_end);
}

TEST_P(Rfc8448, AsServer) {
  const Trace& trace = *GetParam();
  Tls13State state;
  state.read = secret(trace.client_secret);
  state.write = secret(trace.server_secret);
  if (*trace.ticket != 0) state.write.sequence = 1;  // The ticket was its first record.
  Tls13RecordLayer layer(state);
  expect(layer, trace.client_data, trace.client_end, trace.server_data, trace.server_end);
}

}  // namespace
}  // namespace sluice
