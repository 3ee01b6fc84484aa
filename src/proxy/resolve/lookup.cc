#include "proxy/resolve/lookup.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace sluice {

namespace {

constexpr int kClassIn = 1, kTypeSrv = 33;
constexpr uint32_t kMaxPriority = 15;  // The configuration's maximum.

// Combines an address that c-ares found with the configured port.
config::Address address_of(const sockaddr& found, uint16_t port) {
  char text[INET6_ADDRSTRLEN];
  const bool ip4 = found.sa_family == AF_INET;
  const void* const bytes = ip4 ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in&>(found).sin_addr)
                                : &reinterpret_cast<const sockaddr_in6&>(found).sin6_addr;
  inet_ntop(found.sa_family, bytes, text, sizeof text);
  return config::Address::parse(ip4 ? absl::StrCat(text, ":", port) : absl::StrCat("[", text, "]:", port)).value();
}

bool is_answer(int status) { return status == ARES_SUCCESS || status == ARES_ENOTFOUND || status == ARES_ENODATA; }

}  // namespace

void fit_service(std::vector<SrvRecord>& records, uint32_t base) {
  std::set<uint16_t> priorities;
  for (const SrvRecord& record : records) priorities.insert(record.priority);
  for (SrvRecord& record : records) {
    const auto rank = std::distance(priorities.begin(), priorities.find(record.priority));
    record.priority = static_cast<uint16_t>(std::min<size_t>(base + static_cast<size_t>(rank), kMaxPriority));
    record.weight = std::max<uint16_t>(record.weight, 1);
  }
  // Sorted, because name servers change the order with each answer.
  std::sort(records.begin(), records.end(), [](const SrvRecord& a, const SrvRecord& b) {
    return std::tie(a.priority, b.weight, a.port, a.target) < std::tie(b.priority, a.weight, b.port, b.target);
  });
}

Lookup::Lookup(const config::Endpoint& endpoint, const config::Resolve& settings)
    : endpoint_(endpoint),
      settings_(settings),
      first_(settings, absl::EndsWith(endpoint.srv.empty() ? endpoint.address.host() : endpoint.srv.text(), ".")
                           ? DnsChannel::Search::kNo
                           : DnsChannel::Search::kYes) {
  if (!first_.get()) {
    fail("c-ares", first_.error());
  } else if (!endpoint.srv.empty()) {
    query_service(endpoint.srv.text());
  } else {
    query_addresses(first_, {.lookup = this,
                             .name = endpoint.address.host(),
                             .port = endpoint.address.port(),
                             .weight = endpoint.weight,
                             .priority = endpoint.priority});
  }
}

Lookup::~Lookup() = default;

void Lookup::add_to(std::vector<pollfd>& polled) const {
  first_.add_to(polled);
  if (targets_) targets_->add_to(polled);
}

void Lookup::limit(int64_t& timeout_ms) {
  first_.limit(timeout_ms);
  if (targets_) targets_->limit(timeout_ms);
}

void Lookup::process(const std::vector<pollfd>& polled) {
  first_.process(polled);
  if (targets_) targets_->process(polled);
}

LookupResult Lookup::take_result() {
  result_.ttl_s = ttl_s_.value_or(0);
  return std::move(result_);
}

// ---- Services ----

void Lookup::query_service(const std::string& name) {
  ++pending_;
  ares_search(
      first_.get(), name.c_str(), kClassIn, kTypeSrv,
      [](void* self, int status, int, unsigned char* message, int size) {
        // A callback from the destruction of the channel is not an answer.
        if (status != ARES_EDESTRUCTION) static_cast<Lookup*>(self)->take_service(status, message, size);
      },
      this);
}

void Lookup::take_service(int status, const uint8_t* message, int size) {
  --pending_;
  if (status == ARES_ENOTFOUND || status == ARES_ENODATA) return;
  if (status != ARES_SUCCESS) return fail(endpoint_.srv.text(), ares_strerror(status));
  std::optional<SrvAnswer> answer = parse_srv_answer({message, static_cast<size_t>(size)});
  if (!answer) return fail(endpoint_.srv.text(), "the answer is malformed");
  note_ttl(answer->ttl_s);
  fit_service(answer->records, endpoint_.priority);
  // Each target has at least one address or is useless, so more targets than addresses are never needed.
  if (answer->records.size() > settings_.max_addresses) {
    result_.left_out = static_cast<uint32_t>(answer->records.size() - settings_.max_addresses);
    answer->records.resize(settings_.max_addresses);
  }
  targets_.emplace(settings_, DnsChannel::Search::kNo);
  if (!targets_->get()) return fail("c-ares", targets_->error());
  for (SrvRecord& record : answer->records) {
    query_addresses(*targets_, {.lookup = this,
                                .name = std::move(record.target),
                                .port = record.port,
                                .weight = record.weight,
                                .priority = record.priority});
  }
}

// ---- Addresses ----

void Lookup::query_addresses(DnsChannel& channel, Host host) {
  hosts_.push_back(std::make_unique<Host>(std::move(host)));
  std::vector<int> families;
  if (settings_.family != config::AddressFamily::kIp6) families.push_back(AF_INET);
  if (settings_.family != config::AddressFamily::kIp4) families.push_back(AF_INET6);
  const std::string name(absl::StripSuffix(hosts_.back()->name, "."));
  pending_ += families.size();  // The first query may complete before the second starts.
  for (const int family : families) {
    queries_.push_back(std::make_unique<Query>(Query{hosts_.back().get(), family}));
    const ares_addrinfo_hints hints{
        .ai_flags = ARES_AI_NOSORT, .ai_family = family, .ai_socktype = SOCK_STREAM, .ai_protocol = 0};
    ares_getaddrinfo(
        channel.get(), name.c_str(), nullptr, &hints,
        [](void* argument, int status, int, ares_addrinfo* answer) {
          const Query& query = *static_cast<Query*>(argument);
          if (status != ARES_EDESTRUCTION) query.host->lookup->take_addresses(query, status, answer);
          if (answer) ares_freeaddrinfo(answer);
        },
        queries_.back().get());
  }
}

void Lookup::take_addresses(const Query& query, int status, ares_addrinfo* answer) {
  --pending_;
  const Host& host = *query.host;
  if (!is_answer(status)) {
    (query.family == AF_INET ? result_.lacks_ip4 : result_.lacks_ip6) = true;
    return fail(absl::StrCat(host.name, query.family == AF_INET ? " (IPv4)" : " (IPv6)"), ares_strerror(status));
  }
  if (!answer) return;
  for (const ares_addrinfo_cname* alias = answer->cnames; alias; alias = alias->next) note_ttl(alias->ttl);
  for (const ares_addrinfo_node* node = answer->nodes; node; node = node->ai_next) {
    if (node->ai_family != query.family) continue;
    note_ttl(node->ai_ttl);
    result_.endpoints.push_back({address_of(*node->ai_addr, host.port), host.weight, host.priority});
  }
}

void Lookup::fail(std::string_view what, std::string_view why) {
  if (result_.error.empty()) result_.error = absl::StrCat(what, ": ", why);
}

void Lookup::note_ttl(int64_t ttl_s) {
  const auto seconds = static_cast<uint32_t>(std::clamp<int64_t>(ttl_s, 0, INT32_MAX));
  ttl_s_ = std::min(ttl_s_.value_or(seconds), seconds);
}

}  // namespace sluice
