#include "proxy/envoy/proto_json.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "proxy/common/proto_reader.h"
#include "proxy/envoy/json_rules.h"

namespace sluice::envoy {
namespace {

std::string_view type_of_url(std::string_view url) {
  const size_t slash = url.rfind('/');
  return slash == std::string_view::npos ? url : url.substr(slash + 1);
}

// The size of one number without a tag.
size_t packed_size(WireKind kind, std::string_view bytes) {
  if (kind == WireKind::kDouble || kind == WireKind::kFixed64) return 8;
  if (kind == WireKind::kFloat || kind == WireKind::kFixed32) return 4;
  size_t size = 0;
  while (size < bytes.size() && (static_cast<uint8_t>(bytes[size]) & 0x80) != 0) ++size;
  return size + 1;
}

ProtoWire wire_of_size(WireKind kind) {
  if (kind == WireKind::kDouble || kind == WireKind::kFixed64) return ProtoWire::kFixed64;
  return kind == WireKind::kFloat || kind == WireKind::kFixed32 ? ProtoWire::kFixed32 : ProtoWire::kVarint;
}

struct SecondsAndNanos {
  int64_t seconds = 0, nanos = 0;
};

// Duration and Timestamp { seconds = 1, nanos = 2 }
SecondsAndNanos read_time(std::string_view bytes) {
  SecondsAndNanos time;
  ProtoReader in(bytes);
  while (in.next()) {
    if (in.is(1, ProtoWire::kVarint)) time.seconds = static_cast<int64_t>(in.number());
    if (in.is(2, ProtoWire::kVarint)) time.nanos = static_cast<int32_t>(in.number());
  }
  return time;
}

// With 0, 3, 6 or 9 digits, as protobuf's libraries write it.
std::string fraction_text(int64_t nanos) {
  const int64_t size = nanos < 0 ? -nanos : nanos;
  if (size == 0) return "";
  if (size % 1'000'000 == 0) return absl::StrFormat(".%03d", size / 1'000'000);
  return size % 1000 == 0 ? absl::StrFormat(".%06d", size / 1000) : absl::StrFormat(".%09d", size);
}

std::string json_duration(std::string_view bytes) {
  const SecondsAndNanos time = read_time(bytes);
  const bool is_negative = time.seconds < 0 || time.nanos < 0;
  const uint64_t seconds =
      time.seconds < 0 ? -static_cast<uint64_t>(time.seconds) : static_cast<uint64_t>(time.seconds);
  return absl::StrCat(is_negative ? "-" : "", seconds, fraction_text(time.nanos), "s");
}

std::string timestamp_text(std::string_view bytes) {
  const SecondsAndNanos time = read_time(bytes);
  return absl::StrCat(absl::FormatTime("%Y-%m-%dT%H:%M:%S", absl::FromUnixSeconds(time.seconds), absl::UTCTimeZone()),
                      fraction_text(time.nanos), "Z");
}

}  // namespace

void ProtoJson::write_any(std::string_view type, std::string_view bytes) {
  out_.begin_object();
  write_any_members(absl::StrCat("type.googleapis.com/", type), bytes);
  out_.end_object();
}

// Any { type_url = 1, value = 2 }
void ProtoJson::write_any_value(std::string_view bytes) {
  std::string_view type_url, value;
  ProtoReader in(bytes);
  while (in.next()) {
    if (in.is(1, ProtoWire::kBytes)) type_url = in.bytes();
    if (in.is(2, ProtoWire::kBytes)) value = in.bytes();
  }
  out_.begin_object();
  if (!type_url.empty()) write_any_members(type_url, value);
  out_.end_object();
}

void ProtoJson::write_any_members(std::string_view type_url, std::string_view bytes) {
  out_.member("@type", type_url);
  const std::string_view type = type_of_url(type_url);
  // TypedStruct { type_url = 1, value = 2 }
  if (type == "udpa.type.v1.TypedStruct" || type == "xds.type.v3.TypedStruct") {
    ProtoReader in(bytes);
    while (in.next()) {
      if (in.is(1, ProtoWire::kBytes)) out_.member("type_url", in.bytes());
      if (!in.is(2, ProtoWire::kBytes)) continue;
      out_.key("value");
      write_struct(in.bytes());
    }
  } else if (type.starts_with(kWellKnownTypes) && type != "google.protobuf.Empty") {
    out_.key("value");
    write_message(type, bytes);
  } else {
    write_members(type, bytes);
  }
}

void ProtoJson::write_message(std::string_view type, std::string_view bytes) {
  if (type.starts_with(kWellKnownTypes) && write_well_known(type.substr(kWellKnownTypes.size()), bytes)) return;
  out_.begin_object();
  write_members(type, bytes);
  out_.end_object();
}

void ProtoJson::write_members(std::string_view type, std::string_view bytes) {
  const WireMessage* const message = find_wire_message(type);
  if (message == nullptr) {
    if (!bytes.empty()) left_out_.emplace(type);
    return;
  }
  std::map<uint32_t, std::vector<Piece>> pieces;
  ProtoReader in(bytes);
  while (in.next()) pieces[in.field()].push_back({.number = in.number(), .bytes = in.bytes()});
  for (const auto& [number, list] : pieces) {
    const WireField* const field = message->find(number);
    if (field == nullptr) {
      left_out_.insert(absl::StrCat(type, ": field ", number));
      continue;
    }
    const bool is_hidden = std::exchange(is_secret_, is_secret_ || is_secret_field(type, field->name));
    const bool is_text = field->kind == WireKind::kString || field->kind == WireKind::kBytes;
    if (!is_secret_ || is_text || field->kind == WireKind::kMessage) write_field(*field, list);
    is_secret_ = is_hidden;
  }
}

void ProtoJson::write_field(const WireField& field, const std::vector<Piece>& pieces) {
  out_.key(field.name);
  if (field.is_map) return write_map(field, pieces);
  if (field.is_repeated) {
    const bool is_number =
        field.kind != WireKind::kString && field.kind != WireKind::kBytes && field.kind != WireKind::kMessage;
    out_.begin_array();
    for (const Piece& piece : pieces) {
      // Packed numbers come as bytes, which may be empty.
      is_number&& piece.bytes.data() != nullptr ? write_packed(field, piece.bytes) : write_value(field, piece);
    }
    out_.end_array();
  } else if (field.kind != WireKind::kMessage || pieces.size() == 1) {
    write_value(field, pieces.back());
  } else {
    // Parts of one message, one after the other, are that message.
    std::string whole;
    for (const Piece& piece : pieces) whole += piece.bytes;
    write_value(field, {.number = 0, .bytes = whole});
  }
}

// An entry of map<string, T>: key = 1, value = 2. Of entries with one key, the last counts.
void ProtoJson::write_map(const WireField& field, const std::vector<Piece>& pieces) {
  std::map<std::string_view, Piece> entries;
  for (const Piece& piece : pieces) {
    std::string_view key;
    Piece value{};
    ProtoReader in(piece.bytes);
    while (in.next()) {
      if (in.is(1, ProtoWire::kBytes)) key = in.bytes();
      if (in.field() == 2) value = {.number = in.number(), .bytes = in.bytes()};
    }
    entries.insert_or_assign(key, value);
  }
  out_.begin_object();
  for (const auto& [key, value] : entries) {
    out_.key(key);
    write_value(field, value);
  }
  out_.end_object();
}

// Numbers one after the other, without tags.
void ProtoJson::write_packed(const WireField& field, std::string_view bytes) {
  while (!bytes.empty()) {
    const size_t size = std::min(packed_size(field.kind, bytes), bytes.size());
    const std::string tagged = absl::StrCat(
        std::string(1, static_cast<char>(1 << 3 | static_cast<int>(wire_of_size(field.kind)))), bytes.substr(0, size));
    ProtoReader in(tagged);
    if (!in.next()) return;
    write_value(field, {.number = in.number(), .bytes = {}});
    bytes.remove_prefix(size);
  }
}

void ProtoJson::write_value(const WireField& field, const Piece& piece) {
  switch (field.kind) {
    case WireKind::kMessage:
      return write_message(field.type, piece.bytes);
    case WireKind::kString:
      out_.value(is_secret_ ? kRedacted : piece.bytes);
      return;
    case WireKind::kBytes:
      out_.value(absl::Base64Escape(is_secret_ ? kRedacted : piece.bytes));
      return;
    case WireKind::kBool:
      out_.value(piece.number != 0);
      return;
    case WireKind::kDouble:
      return write_float(std::bit_cast<double>(piece.number));
    case WireKind::kFloat: {
      // The shortest text that is this float.
      char text[32];
      const float value = std::bit_cast<float>(static_cast<uint32_t>(piece.number));
      if (!std::isfinite(value)) return write_float(static_cast<double>(value));
      const auto written = std::to_chars(std::begin(text), std::end(text), value);
      out_.number({std::begin(text), written.ptr});
      return;
    }
    case WireKind::kInt:
      return write_integer(piece.number, true);
    case WireKind::kSint:
      return write_integer((piece.number >> 1) ^ (~(piece.number & 1) + 1), true);
    case WireKind::kEnum: {
      const std::string name = wire_enum_text(field.type, piece.number);
      const bool is_number = name.find_first_not_of("-0123456789") == std::string::npos;
      is_number ? out_.number(name) : out_.value(name);
      return;
    }
    default:
      return write_integer(piece.number, false);
  }
}

// Returns false if it is an ordinary message.
bool ProtoJson::write_well_known(std::string_view name, std::string_view bytes) {
  if (name == "Any") {
    write_any_value(bytes);
  } else if (name == "Duration") {
    out_.value(json_duration(bytes));
  } else if (name == "Timestamp") {
    out_.value(timestamp_text(bytes));
  } else if (name == "Struct") {
    write_struct(bytes);
  } else if (name == "Value") {
    write_struct_value(bytes);
  } else if (name == "ListValue") {
    // ListValue { values = 1 }
    out_.begin_array();
    ProtoReader in(bytes);
    while (in.next()) {
      if (in.is(1, ProtoWire::kBytes)) write_struct_value(in.bytes());
    }
    out_.end_array();
  } else {
    const std::optional<WireKind> wrapped = wrapped_kind(name);
    if (!wrapped) return false;
    Piece value{};
    ProtoReader in(bytes);
    while (in.next()) {
      if (in.field() == 1) value = {.number = in.number(), .bytes = in.bytes()};
    }
    write_value({.number = 1, .name = "value", .kind = *wrapped, .type = {}}, value);
  }
  return true;
}

// Struct { fields = 1 }, a map<string, Value>
void ProtoJson::write_struct(std::string_view bytes) {
  std::vector<Piece> pieces;
  ProtoReader in(bytes);
  while (in.next()) {
    if (in.is(1, ProtoWire::kBytes)) pieces.push_back({.number = 0, .bytes = in.bytes()});
  }
  write_map({.number = 1, .name = "fields", .kind = WireKind::kMessage, .type = "google.protobuf.Value"}, pieces);
}

// Value { null_value = 1, number_value = 2, string_value = 3, bool_value = 4, struct_value = 5, list_value = 6 }
void ProtoJson::write_struct_value(std::string_view bytes) {
  ProtoReader in(bytes);
  uint32_t kind = 1;
  Piece value{};
  while (in.next()) {
    kind = in.field();
    value = {.number = in.number(), .bytes = in.bytes()};
  }
  switch (kind) {
    case 2:
      return write_float(std::bit_cast<double>(value.number));
    case 3:
      out_.value(is_secret_ ? kRedacted : value.bytes);
      return;
    case 4:
      out_.value(value.number != 0);
      return;
    case 5:
      return write_struct(value.bytes);
    case 6:
      return write_message("google.protobuf.ListValue", value.bytes);
    default:
      out_.null();
  }
}

// Readers of JSON keep a number of 32 bits as it is; one of 64 bits they may round.
void ProtoJson::write_integer(uint64_t value, bool is_signed) {
  const std::string text = is_signed ? absl::StrCat(static_cast<int64_t>(value)) : absl::StrCat(value);
  const auto number = static_cast<int64_t>(value);
  const bool is_long =
      is_signed ? number < std::numeric_limits<int32_t>::min() || number > int64_t{std::numeric_limits<uint32_t>::max()}
                : value > std::numeric_limits<uint32_t>::max();
  is_long ? out_.value(text) : out_.number(text);
}

void ProtoJson::write_float(double value) {
  if (std::isnan(value)) {
    out_.value("NaN");
  } else if (std::isinf(value)) {
    out_.value(value < 0 ? "-Infinity" : "Infinity");
  } else {
    char text[32];
    const auto written = std::to_chars(std::begin(text), std::end(text), value);
    out_.number({std::begin(text), written.ptr});
  }
}

}  // namespace sluice::envoy
