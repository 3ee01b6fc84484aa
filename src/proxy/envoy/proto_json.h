// Messages of protobuf as JSON, for people and for the tools of Envoy's control planes.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/common/json_writer.h"
#include "proxy/envoy/wire_format.h"

namespace sluice::envoy {

/// Writes messages in the form of proto3 JSON as Envoy's page /config_dump does: fields in snake_case, in the order of
/// their numbers. What is secret (Envoy's annotation `sensitive`) is `[redacted]`. An integer is a number, also where
/// proto3 JSON has a string for one of 64 bits, unless it needs more than 32 bits.
class ProtoJson {
 public:
  /// `out` outlives it.
  explicit ProtoJson(JsonWriter& out) : out_(out) {}

  /// Writes a message of the full name `type` as an Any: an object with `@type`. Precondition: read_message() accepts
  /// the message.
  void write_any(std::string_view type, std::string_view bytes);
  /// The messages and fields that wire_format.txt lacks, so that their contents were left out, of all calls.
  const std::set<std::string>& left_out() const { return left_out_; }

 private:
  struct Piece {
    uint64_t number;
    std::string_view bytes;
  };

  void write_any_value(std::string_view bytes);
  void write_any_members(std::string_view type_url, std::string_view bytes);
  void write_message(std::string_view type, std::string_view bytes);
  void write_members(std::string_view type, std::string_view bytes);
  void write_field(const WireField& field, const std::vector<Piece>& pieces);
  void write_map(const WireField& field, const std::vector<Piece>& pieces);
  void write_packed(const WireField& field, std::string_view bytes);
  void write_value(const WireField& field, const Piece& piece);
  bool write_well_known(std::string_view type, std::string_view bytes);
  void write_struct(std::string_view bytes);
  void write_struct_value(std::string_view bytes);
  void write_integer(uint64_t value, bool is_signed);
  void write_float(double value);

  JsonWriter& out_;
  bool is_secret_ = false;
  std::set<std::string> left_out_;
};

}  // namespace sluice::envoy
