// The cost of finding a request's route, and of changing its header fields, by the number of routes and rules.
// bench/routing runs it, and makes tables of it.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proxy/router/field_changes.h"
#include "proxy/router/http_router.h"
#include "sluice/internal/check.h"
#include "test/proxy/http/h2/allocations.h"

namespace sluice {
namespace {

/// The average number of heap allocations of one operation.
class AllocationsEach {
 public:
  explicit AllocationsEach(benchmark::State& state) : state_(state), before_(test::allocations) {}
  ~AllocationsEach() {
    state_.counters["allocations"] =
        benchmark::Counter(static_cast<double>(test::allocations - before_), benchmark::Counter::kAvgIterations);
  }

 private:
  benchmark::State& state_;
  const uint64_t before_;
};

// ---- Routes ----

/// A route, and a request that only it matches.
struct Case {
  config::HttpMatch match;
  std::string host = "api.example.com", path = "/svc/orders/12345678", value;
};

using MakeCase = Case (*)(size_t index);

Case by_host(size_t i) {
  Case made{.host = absl::StrCat("tenant-", i, ".example.com")};
  made.match.host.push_back(config::HostPattern::parse(made.host).value());
  return made;
}

Case by_wildcard(size_t i) {
  Case made{.host = absl::StrCat("www.tenant-", i, ".example.com")};
  made.match.host.push_back(config::HostPattern::parse(absl::StrCat("*.tenant-", i, ".example.com")).value());
  return made;
}

Case by_exact_path(size_t i) {
  Case made{.path = absl::StrCat("/svc/item-", i, "/status")};
  made.match.path = config::PathMatch{.exact = made.path, .prefix = ""};
  return made;
}

Case by_prefix(size_t i) {
  const std::string prefix = absl::StrCat("/svc/team-", i, "/");
  Case made{.path = prefix + "orders/12345678"};
  made.match.path = config::PathMatch{.exact = "", .prefix = prefix};
  return made;
}

/// Like an edge with many tenants: two paths of each host.
Case by_host_and_path(size_t i) {
  Case made = i % 2 ? by_exact_path(i) : by_prefix(i);
  made.host = absl::StrCat("tenant-", i / 2, ".example.com");
  made.match.host.push_back(config::HostPattern::parse(made.host).value());
  return made;
}

/// These are in no table: they are tried one after the other.
Case by_regex(size_t i) {
  Case made{.path = absl::StrCat("/svc/team-", i, "/orders/12345678")};
  const std::string text = absl::StrCat("/svc/team-", i, "/orders/[0-9]+");
  made.match.path = config::PathMatch{.exact = "", .prefix = "", .regex = config::Regex::parse(text).value()};
  return made;
}

Case by_header(size_t i) {
  Case made{.value = absl::StrCat("version-", i)};
  config::HeaderMatch& header = made.match.headers.emplace_back();
  header.name = config::FieldName::parse("x-version").value();
  header.exact = made.value;
  return made;
}

ChunkPool& pool() {
  static ChunkPool pool({.budget_bytes = size_t{1} << 20});
  return pool;
}

/// The fields of an ordinary request, and one more.
void add_fields(Fields& fields, std::string_view name, std::string_view value) {
  constexpr std::pair<std::string_view, std::string_view> kUsual[] = {
      {"user-agent", "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"},
      {"accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"},
      {"accept-language", "en-US,en;q=0.5"},
      {"accept-encoding", "gzip, deflate, br, zstd"},
      {"cookie", "session=0123456789abcdef0123456789abcdef"},
      {"referer", "https://www.example.com/orders"},
      {"x-forwarded-for", "203.0.113.7"},
      {"x-forwarded-proto", "https"},
      {"via", "1.1 sluice"}};
  for (const auto& [usual, text] : kUsual) SLUICE_CHECK(fields.add(pool(), usual, text));
  SLUICE_CHECK(fields.add(pool(), name, value));
}

/// Each route is requested as often as any other, in a random order.
void find_route(benchmark::State& state, MakeCase make) {
  const ChunkPool::Use use(&pool());
  std::vector<Case> cases;
  config::Http http;
  for (size_t i = 0; i < static_cast<size_t>(state.range(0)); ++i) {
    cases.push_back(make(i));
    config::HttpRoute& route = http.routes.emplace_back();
    route.match = cases.back().match;
    route.respond.emplace();
  }
  const HttpRouter router(http, {});
  struct Request {
    uint32_t route;
    Fields fields;
    RequestAttributes facts;
  };
  std::vector<Request> requests(cases.size());
  for (size_t i = 0; i < cases.size(); ++i) {
    Request& request = requests[i];
    request.route = static_cast<uint32_t>(i);
    if (!cases[i].value.empty()) add_fields(request.fields, "x-version", cases[i].value);
    request.facts = {.host = cases[i].host, .path = cases[i].path, .method = "GET"};
  }
  std::shuffle(requests.begin(), requests.end(), std::mt19937_64(1));
  for (Request& request : requests) request.facts.fields = &request.fields;
  const auto find_all = [&] {
    for (const Request& request : requests) SLUICE_CHECK(router.route(request.facts)->index == request.route);
  };
  find_all();  // A regular expression builds states when they are needed for the first time.
  const AllocationsEach allocations(state);
  size_t next = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(router.route(requests[next].facts));
    if (++next == requests.size()) next = 0;
  }
}

// ---- Header fields ----

std::vector<config::FieldChange> rules(size_t count) {
  constexpr std::string_view kWords[] = {"id", "zone", "client", "deployment", "cache-key"};
  std::vector<config::FieldChange> made;
  for (size_t i = 0; i < count; ++i) {
    config::FieldChange& change = made.emplace_back();
    const bool removes = i % 2;
    const std::string name = absl::StrCat(removes ? "x-internal-" : "x-edge-", kWords[i / 2 % 5], "-", i / 10);
    change.name = config::FieldName::parse(name).value();
    change.remove = removes;
    if (!removes) change.set = config::TextTemplate::parse(absl::StrCat("value-", i, "-of-", name)).value();
  }
  return made;
}

/// A head is made, and then half of the rules set a field, half remove one; of those, one is present. Without rules it
/// is the cost of making the head.
void change(benchmark::State& state) {
  const ChunkPool::Use use(&pool());
  const std::vector<config::FieldChange> changes = rules(static_cast<size_t>(state.range(0)));
  const auto facts_of = [] { return RequestAttributes(); };
  Fields fields;
  const auto change_head = [&] {
    fields.clear();
    add_fields(fields, "x-internal-id-0", "1");
    SLUICE_CHECK(change_fields(pool(), changes, facts_of, fields));
  };
  change_head();
  const AllocationsEach allocations(state);
  for (auto _ : state) change_head();
}

void register_all() {
  const std::pair<std::string, MakeCase> kinds[] = {
      {"host", by_host},     {"wildcard", by_wildcard},       {"exact", by_exact_path},
      {"prefix", by_prefix}, {"host+path", by_host_and_path}, {"regex", by_regex},
      {"header", by_header}};
  for (const auto& [name, make] : kinds) {
    benchmark::RegisterBenchmark("route/" + name, find_route, make)->Arg(10)->Arg(100)->Arg(1000);
  }
  benchmark::RegisterBenchmark("change", change)->Arg(0)->Arg(2)->Arg(10)->Arg(50)->Arg(100);
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  sluice::register_all();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
}
