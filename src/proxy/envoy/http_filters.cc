#include "proxy/envoy/http_filters.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "proxy/common/suggestions.h"
#include "proxy/envoy/taken_paths.h"
#include "proxy/envoy/values.h"

namespace sluice::envoy {
namespace {

using config::Node;

// Filters that keep requests out: without them more would get in.
bool is_guard(std::string_view type) {
  constexpr std::string_view kGuards[] = {".rbac.",   ".jwt_authn.",    ".ext_authz.", ".basic_auth.",
                                          ".oauth2.", ".api_key_auth.", ".csrf.",      ".ext_proc.",
                                          ".wasm.",   ".lua.",          ".golang."};
  return std::any_of(std::begin(kGuards), std::end(kGuards),
                     [&](std::string_view word) { return absl::StrContains(type, word); });
}

// The parts of a route that rules concern are the same for each route.
void drop_routes_never_taken(std::vector<MappedRoute>& routes) {
  std::vector<MappedRoute> kept;
  TakenPaths taken;
  for (MappedRoute& route : routes) {
    if (taken.take_all_of(route.conditions.path)) continue;
    if (route.conditions.is_path_only()) taken.add(route.conditions.path);
    kept.push_back(std::move(route));
  }
  routes = std::move(kept);
}

// `N/s`, `N/m` or `N/h`; empty if the rate is none of these.
std::string rate_of(uint64_t tokens, std::chrono::milliseconds interval) {
  if (interval.count() <= 0 || tokens == 0) return "";
  constexpr std::pair<int64_t, std::string_view> kUnits[] = {{1000, "s"}, {60000, "m"}, {3600000, "h"}};
  for (const auto& [ms, unit] : kUnits) {
    const uint64_t scaled = tokens * static_cast<uint64_t>(ms);
    const auto length = static_cast<uint64_t>(interval.count());
    if (scaled % length == 0) return absl::StrCat(scaled / length, "/", unit);
  }
  return "";
}

bool is_off(const Message& message, std::string_view field) { return percent_of(message, field).value_or(0) == 0; }

}  // namespace

HttpFilters::HttpFilters(const Message& manager, MappingState& state) : state_(state) {
  for (const Message& entry : manager.subs("http_filters")) read(entry);
}

void HttpFilters::lock(const Message& entry, std::string_view why) {
  entry.refuse(
      "typed_config",
      absl::StrCat(why, ": the listener refuses all requests, by its `deny`, until there is something in its place"));
  is_locked_ = true;
}

// What has the filter's configuration: the entry itself, or a resource, or the default in its place.
HttpFilters::Source HttpFilters::source_of(const Message& entry) {
  const Message discovery = entry.sub("config_discovery");
  if (!discovery) return {entry, "typed_config"};
  static const MessageRule* const rule = find_message_rule("envoy.config.core.v3.TypedExtensionConfig");
  Subject& subject = subjects_.emplace_back(Subject{*state_.findings, "extension configuration", entry.text("name")});
  if (const Node* const found = state_.find_extension(subject.name)) {
    Source source{Message(*found, *rule, subject, ""), "typed_config"};
    const std::vector<std::string> types = discovery.texts("type_urls");
    const std::string type = source.message.any_type(source.field);
    if (std::any_of(types.begin(), types.end(),
                    [&](std::string_view url) { return absl::StripPrefix(url, "type.googleapis.com/") == type; })) {
      return source;
    }
    source.message.refuse(source.field,
                          absl::StrCat("expected one of the type_urls of the listener, got ", config::in_quotes(type)));
  }
  return {discovery, "default_config"};
}

void HttpFilters::read(const Message& entry) {
  if (entry.flag("disabled")) {
    return entry.ignore("disabled", "the filter is left out, also where a route enables it");
  }
  const Source source = source_of(entry);
  const std::string type = source.message.any_type(source.field);
  const Message filter = source.message.any(source.field);
  if (!filter) {
    const std::string name = type.empty() ? entry.text("name") : type;
    const std::string why = absl::StrCat("there is no counterpart of ", config::in_quotes(name));
    if (entry.flag("is_optional")) return entry.ignore("typed_config", why);
    return is_guard(type.empty() ? absl::StrCat(entry.text("name"), ".") : type) ? lock(entry, why)
                                                                                 : entry.refuse("typed_config", why);
  }
  if (type.ends_with(".Cors")) {
    has_cors_ = true;
  } else if (type.ends_with(".Compressor")) {
    read_compressor(filter);
  } else if (type.ends_with(".Buffer")) {
    buffered_ = filter.text("max_request_bytes");
    if (!buffered_.empty()) put(http_, "max_body", buffered_);
  } else if (type.ends_with(".HealthCheck")) {
    read_health_check(filter);
  } else if (type.ends_with(".RateLimit")) {
    read_service(filter);
  } else if (type.ends_with(".LocalRateLimit")) {
    local_limit_ = filter;
  } else if (type.ends_with(".GrpcWeb")) {
    entry.ignore("typed_config", "requests of gRPC-Web are passed on as they are: an upstream has to understand them");
  } else if (type.ends_with(".grpc_stats.v3.FilterConfig")) {
    entry.ignore("typed_config", "the access log has the status of each call");
  } else if (!type.ends_with(".Router") && !read_guard(filter)) {
    lock(entry, absl::StrCat(config::in_quotes(type), " cannot be mapped"));
  }
}

bool HttpFilters::read_guard(const Message& filter) {
  const std::string_view type = filter.type();
  AccessRules rules;
  if (type.ends_with(".JwtAuthentication")) {
    if (!rules.read_jwt(filter)) return false;
    rules_.push_back(std::move(rules));
    return true;
  }
  if (type.ends_with(".RBAC")) {
    if (!rules.read_rbac(filter)) return false;
    rules_.push_back(std::move(rules));
    return true;
  }
  if (type.ends_with(".BasicAuth")) {
    read_basic(filter);
    return !basic_.keys.empty();
  }
  return type.ends_with(".ExtAuthz") && read_authorizer(filter);
}

void HttpFilters::read_basic(const Message& filter) {
  if (const std::string file = file_of(filter, "users"); !file.empty())
    put(map_at(basic_, "basic"), "users_file", file);
}

// As in Envoy, a cluster that may still come is no reason to refuse the listener: calls of it fail until then.
HttpFilters::GrpcTarget HttpFilters::find_target(const Message& service, std::string_view meanwhile) {
  const Message grpc = service.sub("envoy_grpc");
  if (!grpc) return {};
  const std::string cluster = grpc.text("cluster_name");
  UsedUpstream* const upstream = state_.find_upstream(cluster);
  if (upstream == nullptr || !upstream->mapped->is_usable) {
    const bool may_follow = state_.resources.may_follow && !cluster.empty();
    grpc.report("cluster_name",
                absl::StrCat("there is no cluster ", config::in_quotes(cluster), " with endpoints",
                             may_follow ? absl::StrCat(" yet: ", meanwhile) : ""),
                may_follow ? Severity::kIgnored : Severity::kRefused);
    return {.upstream = {}, .is_awaited = may_follow};
  }
  const Node* const protocol = upstream->mapped->out.find("protocol");
  if (protocol == nullptr || protocol->text != "http2") {
    grpc.refuse("cluster_name", absl::StrCat("the cluster ", config::in_quotes(cluster), " does not speak HTTP/2"));
    return {};
  }
  upstream->use.is_for_http = true;
  return {.upstream = upstream->mapped->name};
}

bool HttpFilters::read_authorizer(const Message& filter) {
  const Message service = filter.sub("grpc_service");
  for (const std::string_view field :
       {"with_request_body", "filter_enabled", "filter_enabled_metadata", "disallowed_headers"}) {
    if (filter.has(field)) return false;  // The table refuses it.
  }
  const bool may_pass = filter.flag("failure_mode_allow");
  const GrpcTarget to = find_target(service, may_pass ? "requests go on unchecked" : "requests get 503");
  // Of several filters, each has to let a request pass.
  lacks_authorizer_ = lacks_authorizer_ || (to.is_awaited && !may_pass);
  if (to.upstream.empty()) return to.is_awaited;
  put(authorizer_, "to", to.upstream);
  put_duration(authorizer_, "timeout", service, "timeout");
  if (may_pass) put(authorizer_, "on_failure", "allow");
  return true;
}

void HttpFilters::read_service(const Message& filter) {
  const Message service = filter.sub("rate_limit_service").sub("grpc_service");
  const bool may_pass = !filter.flag("failure_mode_deny");
  const GrpcTarget to =
      find_target(service, may_pass ? "requests are not counted by it" : "requests that it would count get 503");
  if (to.is_awaited) {
    lacks_limits_ = lacks_limits_ || !may_pass;
    return;
  }
  if (to.upstream.empty())
    return filter.refuse("rate_limit_service", "it cannot be used: requests are not counted by it");
  Node made = map_node();
  put(made, "to", to.upstream);
  put(made, "domain", filter.text("domain"));
  put_duration(made, "timeout", filter, "timeout");
  if (!may_pass) put(made, "on_failure", "refuse");
  put(http_, "global_rate_limits", std::move(made));
}

void HttpFilters::read_compressor(const Message& filter) {
  const std::string type = filter.sub("compressor_library").any_type("typed_config");
  filter.sub("compressor_library").any("typed_config");
  const std::string_view coding = absl::StrContains(type, ".brotli.") ? "br"
                                  : absl::StrContains(type, ".zstd.") ? "zstd"
                                                                      : "gzip";
  const Message common = filter.sub("response_direction_config").sub("common_config");
  const Message& sizes = common && common.has("min_content_length") ? common : filter;
  const auto least = sizes.number(common && common.has("min_content_length") ? "min_content_length" : "content_length");
  std::vector<std::string> types = common.texts("content_type");
  if (types.empty()) types = filter.texts("content_type");
  Node& made = map_at(http_, "compression");
  list_at(made, "codings").items.push_back(scalar_node(coding));
  put(made, "min_size", absl::StrCat(least.value_or(30)));
  if (!types.empty()) put(made, "types", list_node(types));
}

void HttpFilters::read_health_check(const Message& filter) {
  if (filter.flag("pass_through_mode")) {
    return filter.refuse("pass_through_mode",
                         "health checks go to the upstream like any request, also while this process drains");
  }
  for (const Message& header : filter.subs("headers")) {
    std::string path = header.text("exact_match");
    if (const Message matcher = header.sub("string_match"); matcher && matcher.has("exact"))
      path = matcher.text("exact");
    if (header.text("name") == ":path" && canonical_path_text(path) == path) {
      readiness_paths_.push_back(path);
    } else {
      header.refuse("", "a health check has one exact `:path`");
    }
  }
}

// ---- Routes ----

void HttpFilters::put_local_limit(const Message& limit, MappedRoute& route) const {
  const Message bucket = limit.sub("token_bucket");
  if (!bucket) return;
  if (is_off(limit, "filter_enabled"))
    return limit.ignore("filter_enabled", "it is off: without a share none of the requests is counted");
  const uint64_t most = bucket.number("max_tokens").value_or(0);
  const uint64_t each = bucket.number("tokens_per_fill").value_or(1);
  const std::string rate = rate_of(each, bucket.duration("fill_interval").value_or(std::chrono::seconds(0)));
  if (rate.empty() || most == 0 || most > 1000000) {
    return bucket.refuse(
        "", "expected a whole number of requests in a second, a minute or an hour, and a burst of up to 1000000");
  }
  Node made = map_node();
  const std::string prefix = limit.text("stat_prefix");
  const std::string name = state_.limit_names.new_name(prefix.empty() ? "local" : prefix);
  put(made, "name", name);
  put(map_at(made, "key"), "route", "true");
  put(made, "rate", rate);
  put(made, "burst", absl::StrCat(most));
  if (const auto status = limit.sub("status").number("code"); status && *status >= 400)
    put(made, "status", absl::StrCat(*status));
  if (is_off(limit, "filter_enforced")) put(made, "dry_run", "true");
  state_.rate_limits.items.push_back(std::move(made));
  put(route.out, "rate_limits", name);
}

void HttpFilters::read_overrides(const Message& route, const RouteSurroundings& around, MappedRoute& made) const {
  Message cors, limit = local_limit_;
  bool authorize = true;
  for (const Message* const level : {&around.configuration, &around.virtual_host, &route}) {
    for (const auto& [name, options] : level->any_map("typed_per_filter_config")) {
      if (options.type().ends_with(".CorsPolicy")) cors = options;
      if (options.type().ends_with(".LocalRateLimit")) limit = options;
      if (options.type().ends_with(".ExtAuthzPerRoute")) authorize = !options.flag("disabled");
    }
    const Node* const map = level->find("typed_per_filter_config");
    for (size_t i = 0; map != nullptr && i < map->items.size(); ++i) {
      const std::string type = map->items[i].kind == Node::Kind::kMap ? type_of_any(map->items[i]) : "";
      const bool unknown = find_message_rule(type) == nullptr;
      if (unknown && is_guard(type)) deny_all(made.out);  // A finding says that it is unknown.
    }
  }
  if (lacks_limits_ && made.out.find("rate_limit_descriptors") != nullptr)
    make_unavailable(made, "the rate limit service is not there");
  if (lacks_authorizer_ && authorize) make_unavailable(made, "the authorizer is not there");
  if (const Message own = around.virtual_host.sub("cors"); own && !cors) cors = own;
  if (const Message own = route.sub("route").sub("cors")) cors = own;
  if (cors && has_cors_) {
    Node policy = cors_node(cors);
    if (!policy.keys.empty()) put(made.out, "cors", std::move(policy));
  }
  if (authorize && !authorizer_.keys.empty()) put(made.out, "ext_authz", authorizer_);
  if (limit && local_limit_) put_local_limit(limit, made);
  if (!basic_.keys.empty()) put(made.out, "auth", basic_);
  if (!buffered_.empty() && made.forwards()) put(map_at(made.out, "buffer"), "requests", buffered_);
}

bool HttpFilters::apply(std::vector<MappedRoute>& routes) const {
  bool all = true;
  for (const AccessRules& rules : rules_) all = rules.apply(routes) && all;
  drop_routes_never_taken(routes);
  return all;
}

}  // namespace sluice::envoy
