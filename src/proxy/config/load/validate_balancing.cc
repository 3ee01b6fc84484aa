#include "proxy/config/load/validate_balancing.h"

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "proxy/common/suggestions.h"
#include "proxy/common/token.h"
#include "proxy/config/load/scalar.h"
#include "proxy/upstream/hash_ring.h"
#include "proxy/upstream/maglev_table.h"

namespace sluice::config {
namespace {

bool is_hashed(Balance balance) { return balance == Balance::kMaglev || balance == Balance::kRingHash; }

void check_hash(const HashKey& key, Balance balance, const std::string& path, Report& report) {
  if (!is_hashed(balance)) {
    report.error(path, absl::StrCat("has no effect with `balance: ", Scalar<Balance>::print(balance),
                                    "`: it is what `maglev` and `ring_hash` go by"));
  }
  const int keys = (key.header.text().empty() ? 0 : 1) + (key.cookie.empty() ? 0 : 1) + (key.query.empty() ? 0 : 1) +
                   (key.path ? 1 : 0) + (key.source ? 1 : 0);
  if (keys != 1) {
    report.error(path, keys == 0
                           ? "expected `header: NAME`, `cookie: NAME`, `query: NAME`, `path: true` or `source: true`"
                           : "one key only: `header`, `cookie`, `query`, `path` and `source` exclude each other");
  }
  if (key.header.text() == "host") {
    report.error(path + ".header", "Host is no field here: requests for one host would all go to one endpoint");
  }
  if (!key.cookie.empty() && !http1::is_token(key.cookie)) {
    report.error(path + ".cookie", absl::StrCat("expected the name of a cookie, got ", in_quotes(key.cookie)));
  }
}

// Checks that the values are valid in Set-Cookie (RFC 6265 section 4.1.1).
void check_sticky(const Sticky& sticky, const std::string& path, Report& report) {
  if (!http1::is_token(sticky.cookie) || sticky.cookie.size() > Sticky::kMaxCookieBytes) {
    report.error(path + ".cookie", absl::StrCat("expected the name of a cookie of up to ", Sticky::kMaxCookieBytes,
                                                " characters, got ", in_quotes(sticky.cookie)));
  }
  const auto fits = [](unsigned char c) { return absl::ascii_isgraph(c) && c != ';'; };
  if (!sticky.path.starts_with('/') || sticky.path.size() > Sticky::kMaxPathBytes ||
      !std::all_of(sticky.path.begin(), sticky.path.end(), fits)) {
    report.error(path + ".path", absl::StrCat("expected a path such as / of up to ", Sticky::kMaxPathBytes,
                                              " characters, got ", in_quotes(sticky.path)));
  }
}

// The largest number of endpoints at a time, including all addresses of names.
size_t max_endpoints(const Upstream& upstream) {
  size_t count = 0;
  for (const Endpoint& endpoint : upstream.endpoints)
    count += endpoint.is_resolved() ? upstream.resolve.max_addresses : 1;
  return count;
}

}  // namespace

void check_balancing(const Upstream& upstream, const std::string& path, Report& report) {
  if (upstream.hash) check_hash(*upstream.hash, upstream.balance, path + ".hash", report);
  if (upstream.sticky) check_sticky(*upstream.sticky, path + ".sticky", report);
  const size_t most = upstream.balance == Balance::kMaglev ? MaglevTable::kMaxMembers : HashRing::kMaxPoints;
  const size_t count = max_endpoints(upstream);
  if (is_hashed(upstream.balance) && count > most) {
    report.error(
        path + ".endpoints",
        absl::StrCat("`balance: ", Scalar<Balance>::print(upstream.balance), "` takes up to ", most, " endpoints, got ",
                     count, count == upstream.endpoints.size() ? "" : ", counting all addresses that names may have"));
  }
}

}  // namespace sluice::config
