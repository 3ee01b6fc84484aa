// Header blocks of a hostile peer, and ours. One decoder is parked between the blocks, and the other never: both have
// the same result, and so has libnghttp2. Both decoders read the encoder's output for any fields unchanged, parked or
// not and whatever the peer's table size is. Nothing is left in the pool.
//
// Input: as described by the comment at each read below.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proxy/http/h2/frame.h"
#include "proxy/http/h2/hpack_decoder.h"
#include "proxy/http/h2/hpack_encoder.h"
#include "sluice/internal/check.h"
#include "test/support/buffers.h"
#include "test/support/fuzz_input.h"
#include "test/support/reference_hpack.h"

namespace sluice {
namespace {

using Kind = Http2HeaderBlock::Kind;
using Verdict = Http2HeaderBlock::Verdict;

class Fuzz : test::FuzzInput {
 public:
  Fuzz(ChunkPool& pool, const uint8_t* data, size_t size) : FuzzInput(data, size), pool_(pool) {}

  void run() {
    const bool sends = byte() % 2 != 0;
    while (!used_up() && (sends ? round_trip() : decode_block())) {
    }
    plain_.reset();
    parked_.reset();
    encoder_.reset();
    SLUICE_CHECK(pool_.leaked() == 0);
  }

 private:
  HpackDecoder::Status decode(HpackDecoder& decoder, std::string_view bytes, size_t cut, Http2HeaderBlock& block) {
    const auto splits = cut ? test::splits_every(cut, bytes.size()) : std::vector<size_t>();
    const HpackDecoder::Status status =
        decoder.decode(pool_, limits_, test::heap_buffer_of(bytes, splits), true, block);
    if (status == HpackDecoder::Status::kGood) block.finish(pool_);
    return status;
  }
  static void check_equal(Http2HeaderBlock& a, Http2HeaderBlock& b) {
    SLUICE_CHECK(a.verdict() == b.verdict());
    if (a.verdict() != Verdict::kGood) return;
    SLUICE_CHECK(a.head().status == b.head().status && a.content_length() == b.content_length());
    SLUICE_CHECK(a.head().method() == b.head().method() && a.head().path() == b.head().path());
    check_equal(a.head().fields, b.head().fields);
  }
  static void check_equal(const Fields& a, const Fields& b) {
    SLUICE_CHECK(a.size() == b.size());
    for (size_t i = 0; i < a.size(); ++i) SLUICE_CHECK(a[i].name == b[i].name && a[i].value == b[i].value);
  }

  // Its purpose, its cuts, its size, and its bytes.
  bool decode_block() {
    const auto kind = static_cast<Kind>(byte() % 4);
    const size_t cut = byte() % 16;
    const std::string_view bytes = take(byte() * 4u);
    Http2HeaderBlock a(kind, true), b(kind, true);
    const HpackDecoder::Status status = decode(*plain_, bytes, 0, a);
    SLUICE_CHECK(decode(*parked_, bytes, cut, b) == status);
    Http2HeaderBlock c(kind, true);
    const bool is_good = decode_by_reference(bytes, c);
    SLUICE_CHECK(is_good == (status == HpackDecoder::Status::kGood));
    if (is_good) check_equal(a, c);
    if (status != HpackDecoder::Status::kGood) return false;
    check_equal(a, b);
    if (a.verdict() == Verdict::kGood) check_good(a);
    parked_->park(pool_);
    SLUICE_CHECK(parked_->parked_bytes() <= 2 * kHpackTableBytes);
    return true;
  }
  bool decode_by_reference(std::string_view bytes, Http2HeaderBlock& block) {
    const auto fields = reference_.decode(bytes);
    if (!fields) return false;
    for (const test::ReferenceField& field : *fields) {
      if (!block.add(pool_, limits_, field.name, field.value, field.sensitive)) return false;
    }
    block.finish(pool_);
    return true;
  }
  // Checks on which later code relies.
  void check_good(Http2HeaderBlock& block) const {
    const Head& head = block.head();
    size_t bytes = 0;
    for (const Fields::Field field : head.fields) {
      bytes += field.name.size() + field.value.size();
      SLUICE_CHECK(!field.name.empty() && field.name != "connection" && field.name != "transfer-encoding");
      for (const char c : field.name) SLUICE_CHECK(c > 0x20 && c < 0x7f && c != ':' && (c < 'A' || c > 'Z'));
      for (const char c : field.value) SLUICE_CHECK(c != '\r' && c != '\n' && c != '\0');
    }
    SLUICE_CHECK(bytes <= limits_.header_list_bytes && head.fields.size() <= limits_.header_fields);
    if (block.kind() != Kind::kRequest) return;
    SLUICE_CHECK(!head.method().empty());
    SLUICE_CHECK(head.method() == "CONNECT" ? !head.authority().empty() : !head.path().empty());
    SLUICE_CHECK(head.fields.find("host") == Fields::npos);
  }

  // What happens before, how many fields, and each one's name, flags and value.
  bool round_trip() {
    const uint8_t before = byte();
    if (before % 4 == 0) encoder_->park();
    if (before % 8 < 4) parked_->park(pool_);
    if (before % 16 == 15) {
      const uint32_t bytes = uint32_t{byte()} * 40;
      const uint32_t smallest = before > 128 ? bytes / 2 : bytes;
      encoder_->set_table_bytes(smallest, bytes);
      reference_.set_table_bytes(smallest);
      reference_.set_table_bytes(bytes);
    }
    Head head;
    head.status = static_cast<uint16_t>(200 + byte());
    size_t size = 0;
    for (size_t fields = byte() % 32; fields > 0; --fields) {
      const std::string name = "x-" + std::to_string(byte() % 40);
      const uint8_t flags = byte();
      std::string value(take(byte()));
      for (char& c : value) {
        if (static_cast<unsigned char>(c) <= 0x20 || c == 0x7f) c = '_';
      }
      if (flags % 8 == 0 && !value.empty()) value.resize(value.size() * (1 + flags), value[0]);
      size += name.size() + value.size() + 32;
      if (size > 30'000) break;
      if (!head.fields.add(pool_, name, value, {.sensitive = flags % 4 == 1})) break;
    }
    Buffer out;
    encoder_->encode_head(pool_, head, 1, true, out);
    std::string wire = test::text_of(out), bytes;
    for (size_t at = 0; at < wire.size();) {
      const auto header = Http2FrameHeader::read(std::as_bytes(std::span(wire)).subspan(at));
      SLUICE_CHECK(header.type == (at == 0 ? Http2FrameType::kHeaders : Http2FrameType::kContinuation));
      SLUICE_CHECK(header.length <= kHttp2FrameBytes);
      bytes += wire.substr(at + Http2FrameHeader::kBytes, header.length);
      at += Http2FrameHeader::kBytes + header.length;
      SLUICE_CHECK(header.has(Http2FrameHeader::kEndHeaders) == (at == wire.size()));
    }
    Http2HeaderBlock block(Kind::kResponse);
    SLUICE_CHECK(decode(*parked_, bytes, before % 5, block) == HpackDecoder::Status::kGood);
    SLUICE_CHECK(block.verdict() == Verdict::kGood && block.head().status == head.status);
    check_equal(block.head().fields, head.fields);
    const auto fields = reference_.decode(bytes);
    SLUICE_CHECK(fields && fields->size() == head.fields.size() + 1);
    for (size_t i = 0; i < head.fields.size(); ++i) {
      const Fields::Field sent = head.fields[i];
      const test::ReferenceField& read = (*fields)[i + 1];
      SLUICE_CHECK(read.name == sent.name && read.value == sent.value && (read.sensitive || !sent.traits.sensitive));
    }
    return true;
  }

  ChunkPool& pool_;
  ChunkPool::Use use_{&pool_};
  const Http2Limits limits_;
  std::optional<HpackDecoder> plain_{std::in_place}, parked_{std::in_place};
  test::ReferenceHpack reference_;
  std::optional<HpackEncoder> encoder_{std::in_place};
};

}  // namespace
}  // namespace sluice

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // Shared by all inputs: creating one takes longer than most inputs.
  static sluice::ChunkPool pool({.budget_bytes = size_t{64} << 20});
  sluice::Fuzz(pool, data, size).run();
  return 0;
}
