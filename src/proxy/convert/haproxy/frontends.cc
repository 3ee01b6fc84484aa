#include "proxy/convert/haproxy/frontends.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "proxy/convert/haproxy/backends.h"
#include "proxy/convert/haproxy/binds.h"
#include "proxy/convert/haproxy/keyword_table.h"
#include "proxy/convert/haproxy/program.h"

namespace sluice::convert::haproxy {
namespace {

using config::Node;

class FrontendMapper {
 public:
  FrontendMapper(const Proxy& frontend, State& state) : frontend_(frontend), state_(state), http_(frontend.is_http()) {}

  void map() {
    const std::vector<BindGroup> groups = read_binds(frontend_, state_);
    for (const BindGroup& group : groups) map_group(group, groups.size());
  }

 private:
  void map_group(const BindGroup& group, size_t groups) {
    Node listener = map_node();
    const std::string& name = frontend_.section->name;
    put(listener, "name",
        state_.listener_names.new_name(groups > 1 && group.has_tls ? absl::StrCat(name, "-tls") : name));
    put_words(listener, "address", group.addresses);
    for (size_t i = 0; i < group.keys.keys.size(); ++i) {
      Node value = group.keys.items[i];
      // What HAProxy offers without `alpn` is no matter where bytes pass.
      if (!http_ && group.keys.keys[i].text == "tls") remove_key(value, "alpn");
      put(listener, group.keys.keys[i].text, std::move(value));
    }
    if (const Line* const most = frontend_.last("maxconn"))
      put_count(listener, "max_connections", *most, most->word(1), 0, UINT32_MAX, state_);
    const Surroundings around{.has_tls = group.has_tls, .is_http = http_, .port = group.port};
    if (http_) {
      put_http(around, listener);
    } else if (!put_tcp(around, listener)) {
      return;
    }
    state_.listeners.items.push_back(std::move(listener));
  }

  const Proxy* backend(const std::string& name, const Line& line) {
    const Proxy* const found = state_.find_backend(name);
    if (found == nullptr) state_.refuse(line, absl::StrCat("there is no backend ", name, ": its requests get 503"));
    return found;
  }

  BackendSteps backend_steps(const std::string& name, const Line& line, const Surroundings& around) {
    BackendSteps made;
    const Proxy* const found = backend(name, line);
    if (found == nullptr) return made;
    if (found->last("disabled") != nullptr) {
      state_.ignore(line, "the backend is disabled: its requests get 503");
      return made;
    }
    if (found->section != frontend_.section) made.steps = steps_of(*found, around, state_);
    made.upstream = upstream_of(*found, /*is_http=*/true, state_);
    made.keys = route_keys(*found, state_);
    return made;
  }

  void put_http(const Surroundings& around, Node& listener) {
    Node& http = put(listener, "http", map_node());
    put_http_times(http);
    put_forwarded(http);
    put_compression(http);
    if (const Line* const id = frontend_.last("unique-id-header")) put(http, "request_id", id->word(1));
    std::vector<Step> steps = steps_of(frontend_, around, state_);
    // A `listen` is its own backend, unless another one is chosen.
    if (frontend_.is_backend() && frontend_.last("default_backend") == nullptr) {
      Step step{.kind = Step::Kind::kBackend, .backend = frontend_.section->name, .line = &own_line_};
      step.when.any.emplace_back();
      steps.push_back(std::move(step));
    }
    std::vector<Route> routes = routes_of(
        steps, [&](const std::string& name, const Line& line) { return backend_steps(name, line, around); }, state_);
    drop_untaken(routes);
    put(http, "routes", routes_node(routes));
  }

  void put_one_time(Node& out, std::string_view key, std::string_view timeout) {
    if (const Line* const line = frontend_.last("timeout", timeout)) put_time(out, key, *line, line->word(2), state_);
  }

  void put_http_times(Node& http) {
    const Line* const client = frontend_.last("timeout", "client");
    put_one_time(http, "header_timeout",
                 frontend_.last("timeout", "http-request") != nullptr ? "http-request" : "client");
    put_one_time(http, "body_timeout", "client");
    put_one_time(http, "send_timeout", "client");
    const bool keep_alive = frontend_.last("timeout", "http-keep-alive") != nullptr;
    put_one_time(http, "idle_timeout",
                 keep_alive                                             ? "http-keep-alive"
                 : frontend_.last("timeout", "http-request") != nullptr ? "http-request"
                                                                        : "client");
    const auto of_client = client == nullptr ? std::nullopt : parse_time(client->word(2));
    const Line* const server = frontend_.last("timeout", "server");
    const auto of_server = server == nullptr ? std::nullopt : parse_time(server->word(2));
    if (of_client)
      put(http, "stream_idle_timeout", duration_text(std::max(*of_client, of_server.value_or(*of_client))));
    put_one_time(http, "tunnel_timeout", "tunnel");
    if (frontend_.has_option("httpclose") || frontend_.has_option("forceclose"))
      put(put(http, "http1", map_node()), "max_requests", "1");
  }

  // HAProxy leaves X-Forwarded-For as it is, unless `option forwardfor` adds to it.
  void put_forwarded(Node& http) {
    const Line* const option = frontend_.last("option", "forwardfor");
    if (option == nullptr) return;
    const std::string_view header = option->after("header");
    if (!header.empty() && !absl::EqualsIgnoreCase(header, "x-forwarded-for")) {
      Node change = map_node();
      put(change, "name", header);
      put(change, "add", "%{client_ip}");
      list_at(http, "request_headers").items.push_back(std::move(change));
    }
    if (option->has("except") || option->has("if-none"))
      state_.ignore(*option, "the client's address is added to X-Forwarded-For in any case");
  }

  void put_compression(Node& http) {
    const Line* const algorithm = frontend_.last("compression", "algo");
    if (algorithm == nullptr) return;
    Node& out = put(http, "compression", map_node());
    put(out, "codings", "gzip");
    if (!algorithm->has("gzip")) state_.ignore(*algorithm, "gzip is the coding");
    if (const Line* const types = frontend_.last("compression", "type")) {
      put_words(out, "types", {types->words.begin() + 2, types->words.end()});
    }
  }

  // Returns false if the listener would let in what HAProxy keeps out.
  bool put_tcp(const Surroundings& around, Node& listener) {
    Node tcp = map_node();
    if (!check_tcp_rules(around)) return false;
    Node routes = list_node();
    for (const Line* const line : frontend_.all("use_backend")) {
      if (!add_tcp_route(*line, around, routes)) return false;
    }
    const Line* const other = frontend_.last("default_backend");
    std::string name(other == nullptr ? "" : other->word(1));
    if (name.empty() && frontend_.is_backend()) name = frontend_.section->name;
    if (!name.empty()) {
      const std::optional<std::string> upstream = tcp_upstream(name, other == nullptr ? own_line_ : *other);
      if (!upstream) return false;
      if (routes.items.empty()) {
        put(tcp, "forward", *upstream);
      } else {
        Node route = map_node();
        put(route, "forward", *upstream);
        routes.items.push_back(std::move(route));
      }
    }
    if (name.empty() && routes.items.empty()) {
      state_.refuse(own_line_, "it has no backend: it is left out");
      return false;
    }
    if (!routes.items.empty()) put(tcp, "routes", std::move(routes));
    put_tcp_times(tcp);
    put(listener, "tcp", std::move(tcp));
    return true;
  }

  std::optional<std::string> tcp_upstream(const std::string& name, const Line& line) {
    const Proxy* const found = backend(name, line);
    return found == nullptr ? std::nullopt : upstream_of(*found, /*is_http=*/false, state_);
  }

  // Rules that keep connections out have no counterpart, but for the usual ones with routes by server name.
  bool check_tcp_rules(const Surroundings& around) {
    if (!std::all_of(frontend_.lines.begin(), frontend_.lines.end(),
                     [](const Line* line) { return is_known(*line) && line->keyword() != "filter"; }))
      return false;
    for (const Line* const line : frontend_.all("tcp-request")) {
      const std::string_view action = line->word(2);
      if (line->word(1) == "inspect-delay" || (action == "accept" && line->word(1) == "content")) continue;
      if (action.starts_with("track-sc") || action.starts_with("set-")) {
        state_.ignore(*line, "nothing is counted or kept");
        continue;
      }
      const Condition when = parse_condition(*line, condition_index(*line), frontend_, around);
      // What is not TLS matches no server name, and is closed where there is no other backend.
      const bool usual = line->word(1) == "content" && action == "reject" && when.is_always() &&
                         frontend_.last("default_backend") == nullptr && !frontend_.is_backend();
      if (usual) continue;
      state_.refuse(*line, "listeners for bytes have no such rule: the frontend is left out");
      return false;
    }
    return true;
  }

  bool add_tcp_route(const Line& line, const Surroundings& around, Node& routes) {
    const Condition when = parse_condition(line, condition_index(line), frontend_, around);
    std::vector<std::string> names;
    bool known = when.unknown.empty();
    for (const Conjunction& conjunction : when.any) {
      const bool one = conjunction.size() == 1 && !conjunction[0].negated &&
                       conjunction[0].predicate.kind == Predicate::Kind::kServerNames;
      known = known && one;
      if (!one) continue;
      for (const RequestSet& set : conjunction[0].predicate.any)
        names.insert(names.end(), set.hosts.begin(), set.hosts.end());
    }
    if (!known) {
      state_.refuse(line, "expected names of servers, as in `{ req.ssl_sni a.test }`: the frontend is left out");
      return false;
    }
    if (names.empty()) return true;
    const std::optional<std::string> upstream = tcp_upstream(std::string(line.word(1)), line);
    if (!upstream) return false;
    for (const Node& before : routes.items) {
      std::erase_if(names, [&](const std::string& name) { return takes(before, name); });
    }
    if (names.empty()) return true;
    Node route = map_node();
    put_words(put(route, "match", map_node()), "sni", names);
    put(route, "forward", *upstream);
    routes.items.push_back(std::move(route));
    return true;
  }

  static bool takes(const Node& route, const std::string& name) {
    const Node* const sni = route.find("match")->find("sni");
    if (sni->kind == Node::Kind::kScalar) return host_covers(sni->text, name);
    return std::any_of(sni->items.begin(), sni->items.end(),
                       [&](const Node& each) { return host_covers(each.text, name); });
  }

  void put_tcp_times(Node& tcp) {
    std::optional<std::chrono::milliseconds> longest;
    for (const std::string_view side : {"client", "server", "tunnel"}) {
      const Line* const line = frontend_.last("timeout", side);
      const auto time = line == nullptr ? std::nullopt : parse_time(line->word(2));
      if (time) longest = std::max(longest.value_or(*time), *time);
    }
    if (longest) put(tcp, "idle_timeout", duration_text(*longest));
    for (const Line* const line : frontend_.all("tcp-request", "inspect-delay"))
      put_time(tcp, "inspect_timeout", *line, line->word(2), state_);
  }

  const Proxy& frontend_;
  State& state_;
  const bool http_;
  const Line own_line_{.words = {frontend_.section->kind, frontend_.section->name}, .mark = frontend_.section->mark};
};

}  // namespace

void map_frontend(const Proxy& frontend, State& state) { FrontendMapper(frontend, state).map(); }

}  // namespace sluice::convert::haproxy
