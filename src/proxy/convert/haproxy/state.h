// What the parts of the mapping of HAProxy share.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/convert/common/disk.h"
#include "proxy/convert/common/finding.h"
#include "proxy/convert/common/named_list.h"
#include "proxy/convert/common/request_set.h"
#include "proxy/convert/common/values.h"
#include "proxy/convert/haproxy/section.h"

namespace sluice::convert::haproxy {

/// A frontend, a backend, or both (`listen`), with the lines of its `defaults` in front of its own.
struct Proxy {
  const Section* section = nullptr;
  std::vector<const Line*> lines;

  /// The last line of this keyword, which counts; nullptr if there is none.
  const Line* last(std::string_view keyword, std::string_view second = "") const;
  std::vector<const Line*> all(std::string_view keyword, std::string_view second = "") const;
  bool has_option(std::string_view name) const;
  bool is_http() const;
  bool is_frontend() const { return section->kind != "backend"; }
  bool is_backend() const { return section->kind != "frontend"; }
};

struct State {
  Findings& findings;
  const Disk& disk;
  std::vector<Proxy> proxies;
  const Section* global = nullptr;
  std::map<std::string, const Section*, std::less<>> resolvers;
  std::map<std::string, std::optional<std::string>, std::less<>> upstreams;  ///< By backend; nothing: it has no server.
  NameTable listener_names;
  NamedList made_upstreams;
  NamedList limits;
  config::Node listeners = list_node();

  void refuse(const Line& line, std::string_view message) { report(line, Severity::kRefused, message, findings); }
  void ignore(const Line& line, std::string_view message) { report(line, Severity::kIgnored, message, findings); }
  const Proxy* find_backend(std::string_view name) const;
  /// A path of a certificate or an authority: relative ones begin at `crt-base` or `ca-base`.
  std::string file(std::string_view path, std::string_view base) const;
};

/// `5s`, `100ms`, `5000`: without a unit milliseconds.
std::optional<std::chrono::milliseconds> parse_time(std::string_view text, int64_t unit_ms = 1);

/// Writes the time in `text`, a part of `line`.
void put_time(config::Node& out, std::string_view key, const Line& line, std::string_view text, State& state);
/// Writes a whole number from `least` to `most`; a finding says if it is none.
void put_count(config::Node& out, std::string_view key, const Line& line, std::string_view text, uint64_t least,
               uint64_t most, State& state);

}  // namespace sluice::convert::haproxy
