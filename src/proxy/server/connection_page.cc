#include "proxy/server/connection_page.h"

#include <array>
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "proxy/admin/query.h"
#include "proxy/common/suggestions.h"
#include "proxy/config/model/units.h"

namespace sluice {

namespace {

constexpr std::string_view kParameters = "listener, peer, protocol, state, min_age, id, sort, limit and after";
constexpr std::array<std::string_view, 4> kSorts = {"newest", "memory", "age", "queued"};
constexpr size_t kIdDigits = 16;

absl::Status expected_value(std::string_view name, std::string_view what, std::string_view got) {
  return absl::InvalidArgumentError(absl::StrCat(name, ": expected ", what, ", got ", config::in_quotes(got)));
}

// The value that has this name among the first `count`.
template <class E>
absl::StatusOr<E> parse_word(std::string_view parameter, std::string_view text, int count, auto name_of) {
  std::vector<std::string_view> names;
  for (int i = 0; i < count; ++i) {
    names.push_back(name_of(static_cast<E>(i)));
    if (names.back() == text) return static_cast<E>(i);
  }
  return expected_value(parameter, absl::StrCat("one of ", absl::StrJoin(names, ", ")), text);
}

// False if the text is not an id as write_connection_rows() writes it.
bool parse_id(std::string_view text, uint64_t& id) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id, 16);
  return error == std::errc() && end == text.data() + text.size() && text.size() == kIdDigits;
}

absl::Status parse_parameter(std::string_view name, const std::string& text, ConnectionQuery& query) {
  if (name == "listener") {
    query.listener = text;
  } else if (name == "peer") {
    absl::StatusOr<config::Cidr> range = config::Cidr::parse(text);
    if (!range.ok()) return expected_value(name, "an IP address or a range such as 10.0.0.0/8", text);
    query.peer = *range;
  } else if (name == "protocol") {
    const auto kind = parse_word<SessionKind>(name, text, kSessionKindCount, session_kind_name);
    if (!kind.ok()) return kind.status();
    query.kind = *kind;
  } else if (name == "state") {
    const auto state = parse_word<ConnectionState>(name, text, kConnectionStateCount, connection_state_name);
    if (!state.ok()) return state.status();
    query.state = *state;
  } else if (name == "min_age") {
    const absl::StatusOr<config::Duration> age = config::parse_duration(text);
    if (!age.ok()) return expected_value(name, "a duration such as 10s", text);
    query.min_age_ms = config::milliseconds(*age);
  } else if (name == "id") {
    if (!parse_id(text, query.id.emplace())) {
      return expected_value(name, "an id of 16 hexadecimal digits, as the table has them", text);
    }
  } else if (name == "sort") {
    const auto sort = parse_word<ConnectionQuery::Sort>(
        name, text, kSorts.size(), [](ConnectionQuery::Sort each) { return kSorts[static_cast<size_t>(each)]; });
    if (!sort.ok()) return sort.status();
    query.sort = *sort;
  } else if (name == "limit") {
    if (!absl::SimpleAtoi(text, &query.limit) || query.limit < 1 || query.limit > ConnectionQuery::kMaxLimit) {
      return expected_value(name, absl::StrCat("a number from 1 to ", ConnectionQuery::kMaxLimit), text);
    }
  } else if (name == "after") {
    if (!parse_id(text, query.after)) {
      return expected_value(name, "an id of 16 hexadecimal digits, the `next` of the page before", text);
    }
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat("there is no parameter ", config::in_quotes(name), "; the parameters are ", kParameters));
  }
  return absl::OkStatus();
}

std::string hex_id(uint64_t id) { return absl::StrFormat("%016x", id); }

void member_or_null(std::string_view name, std::string_view text, JsonWriter& json) {
  json.key(name);
  text.empty() ? void(json.null()) : void(json.value(text));
}

void member_or_null(std::string_view name, std::optional<uint64_t> number, JsonWriter& json) {
  json.key(name);
  number ? void(json.value(*number)) : void(json.null());
}

// Without the port.
std::string address_text(const PeerAddress& peer) {
  const std::string text = text_of(peer);
  if (peer.family() != AF_INET && peer.family() != AF_INET6) return text;
  const std::string_view host = std::string_view(text).substr(0, text.rfind(':'));
  return std::string(host.starts_with('[') ? host.substr(1, host.size() - 2) : host);
}

}  // namespace

absl::StatusOr<ConnectionQuery> parse_connection_query(std::string_view query) {
  const auto parameters = parse_query(query);
  if (!parameters.ok()) return parameters.status();
  ConnectionQuery parsed;
  for (const auto& [name, value] : *parameters) {
    if (absl::Status status = parse_parameter(name, value, parsed); !status.ok()) return status;
  }
  if (parsed.after != UINT64_MAX && parsed.sort != ConnectionQuery::Sort::kNewest) {
    return absl::InvalidArgumentError(
        "after: pages follow each other only in the order of `sort=newest`, as other orders change all the time; use "
        "a larger `limit`, or filters");
  }
  return parsed;
}

void write_connection_rows(const std::vector<ConnectionRow>& rows, JsonWriter& json) {
  json.begin_array();
  for (const ConnectionRow& row : rows) {
    const bool has_port = row.peer.family() == AF_INET || row.peer.family() == AF_INET6;
    json.begin_object().member("id", hex_id(row.id)).member("worker", row.worker).member("listener", row.listener);
    json.member("peer", address_text(row.peer));
    member_or_null("peer_port", has_port ? std::optional<uint64_t>(row.peer.port()) : std::nullopt, json);
    json.member("protocol", session_kind_name(row.facts.kind));
    member_or_null("tls", row.facts.protection, json);
    json.member("state", connection_state_name(row.facts.state)).member("streams", row.facts.streams);
    json.member("age_s", static_cast<double>(row.age_ms) / 1000);
    json.member("idle_s", static_cast<double>(row.idle_ms) / 1000);
    member_or_null("bytes_in", row.details.bytes_in, json);
    member_or_null("bytes_out", row.details.bytes_out, json);
    json.member("memory_bytes", row.facts.memory_bytes).member("queued_bytes", row.facts.queued_bytes);
    member_or_null("upstream", row.details.upstream, json);
    member_or_null("endpoint", row.details.endpoint, json);
    json.end_object();
  }
  json.end_array();
}

void write_connections(const ConnectionTable& table, absl::FunctionRef<bool(size_t worker)> responds,
                       JsonWriter& json) {
  uint64_t open = 0, matching = 0;
  for (const auto& part : table.parts) {
    if (!part->complete.load(std::memory_order_acquire)) continue;
    open += part->open;
    matching += part->matching;
  }
  const std::vector<ConnectionRow> rows = table.first_rows();
  json.begin_object().member("open", open).member("matching", matching);
  const bool goes_on = rows.size() == table.query.limit && table.query.sort == ConnectionQuery::Sort::kNewest;
  member_or_null("next", goes_on ? hex_id(rows.back().id) : std::string(), json);
  write_connection_rows(rows, json.key("connections"));
  json.key("workers").begin_array();
  for (size_t i = 0; i < table.parts.size(); ++i) {
    const ConnectionTablePart& part = *table.parts[i];
    const bool complete = responds(i) && part.complete.load(std::memory_order_acquire);
    json.begin_object().member("worker", i).member("responds", complete);
    json.member("open", complete ? part.open : 0);
    json.member("longest_turn_us", complete ? part.longest_turn_us : 0).end_object();
  }
  json.end_array().end_object();
}

}  // namespace sluice
