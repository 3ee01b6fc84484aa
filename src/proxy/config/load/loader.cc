#include "proxy/config/load/loader.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proxy/common/suggestions.h"
#include "proxy/config/load/diagnostics.h"
#include "proxy/config/load/include.h"
#include "proxy/config/load/schema.h"
#include "proxy/config/load/validate.h"
#include "proxy/config/load/yaml.h"

namespace sluice::config {
namespace {

// A key whose default depends on whether it is given.
constexpr std::string_view kBufferLow = ".tcp.buffer_low";

template <class T>
void read(const Node& node, const std::string& path, T& value, const Rules& rules, Report& report);

// The visitor that fills a struct from a map.
class MapReader {
 public:
  MapReader(const Node& map, const std::string& path, Report& report) : map_(map), path_(path), report_(report) {}

  template <class T>
  void field(std::string_view key, T& value, std::string_view /*help*/, const Rules& rules = {}) {
    known_.push_back(key);
    if (const Node* node = map_.find(key)) {
      read(*node, path_of(key), value, rules, report_);
    } else if (rules.required && (rules.unless.empty() || map_.find(rules.unless) == nullptr)) {
      missing_.push_back({key, rules.unless});
    }
  }

  void directive(std::string_view key, std::string_view /*help*/) { known_.push_back(key); }

  // Must be called after all fields have been visited.
  void finish() {
    for (const Node& key : map_.keys) {
      if (!contains(known_, key.text)) report_unknown(key);
    }
    for (const Missing& missing : missing_) {
      const std::string path = path_of(missing.key);
      if (!contains(explained_, missing.key) && !contains(explained_, missing.unless)) {
        report_.error_at(
            report_.place_of(path_), path,
            absl::StrCat("missing key ", in_quotes(missing.key),
                         missing.unless.empty() ? "" : absl::StrCat(" or ", in_quotes(missing.unless)), where()));
      }
      report_.ignore(path);
    }
  }

 private:
  struct Missing {
    std::string_view key, unless;
  };

  static bool contains(const std::vector<std::string_view>& words, std::string_view word) {
    return std::find(words.begin(), words.end(), word) != words.end();
  }

  std::string path_of(std::string_view key) const {
    return path_.empty() ? std::string(key) : absl::StrCat(path_, ".", key);
  }

  std::string where() const { return path_.empty() ? " at the top level" : absl::StrCat(" in ", path_); }

  void report_unknown(const Node& key) {
    const std::optional<std::string_view> guess = report_.is_full() ? std::nullopt : nearest(key.text, known_);
    if (guess) explained_.push_back(*guess);
    report_.error_at(key.mark, path_,
                     absl::StrCat("unknown key ", in_quotes(key.text), where(),
                                  guess ? absl::StrCat("; did you mean ", in_quotes(*guess), "?")
                                        : absl::StrCat("; the keys here are ", absl::StrJoin(known_, ", "))));
  }

  const Node& map_;
  const std::string& path_;
  Report& report_;
  std::vector<std::string_view> known_;
  std::vector<Missing> missing_;
  std::vector<std::string_view> explained_;  // missing keys that another finding explains, as they are misspelled
};

bool expect_kind(Node::Kind kind, std::string_view expected, const Node& node, std::string_view path, Report& report) {
  if (node.kind == kind) return true;
  report.error(path, absl::StrCat("expected ", expected, ", got ", describe_kind(node)));
  report.ignore(path);
  return false;
}

// The rule that `value` violates, as a message; "" if none.
template <class T>
std::string breach(const T& value, const Rules& rules) {
  const auto print = [](uint64_t number) { return Scalar<T>::print(Scalar<T>::from_number(number)); };
  const uint64_t number = Scalar<T>::number(value);
  if (number < rules.min || number > rules.max) {
    if (rules.max != kNoMaximum) return absl::StrCat("must be from ", print(rules.min), " to ", print(rules.max));
    return rules.min == 1 ? "must not be 0" : absl::StrCat("must be at least ", print(rules.min));
  }
  return number % rules.step == 0 ? "" : absl::StrCat("must be a multiple of ", print(rules.step));
}

template <class T>
void read_scalar(const Node& node, const std::string& path, T& value, const Rules& rules, Report& report) {
  if (!expect_kind(Node::Kind::kScalar, Scalar<T>::type(), node, path, report)) return;
  absl::StatusOr<T> parsed = Scalar<T>::parse(node.text);
  if (!parsed.ok()) return report.error(path, parsed.status().message());
  if constexpr (IsNumber<T>) {
    const std::string against = breach(*parsed, rules);
    if (!against.empty()) return report.error(path, absl::StrCat(against, ", got ", in_quotes(node.text)));
  }
  value = *std::move(parsed);
}

template <class T>
void read_list(const Node& node, const std::string& path, std::vector<T>& list, const Rules& rules, Report& report) {
  const bool is_item = node.kind == Node::Kind::kScalar || (node.kind == Node::Kind::kMap && !IsScalar<T>);
  if (is_item && rules.one_word) {
    return read(node, item_path(path, 0), list.emplace_back(), {}, report);
  }
  if (node.kind == Node::Kind::kScalar) {
    return report.error(path, absl::StrCat("expected a list, got ", in_quotes(node.text), "; write [ ... ] around it"));
  }
  if (!expect_kind(Node::Kind::kList, "a list", node, path, report)) return;
  if (node.items.size() < rules.min) return report.error(path, "expected at least one item, got an empty list");
  list.resize(node.items.size());
  for (size_t i = 0; i < list.size(); ++i) read(node.items[i], item_path(path, i), list[i], {}, report);
}

template <class T>
void read_map(const Node& node, const std::string& path, T& value, Report& report) {
  if constexpr (requires { shorthand(value); }) {
    if (node.kind == Node::Kind::kScalar) return read_scalar(node, path, shorthand(value), {}, report);
  }
  if constexpr (requires { instead_of_word(value); }) {
    if (node.kind == Node::Kind::kScalar) {
      report.error(path,
                   absl::StrCat("expected a map, got ", in_quotes(node.text), "; write ", instead_of_word(value)));
      return report.ignore(path);
    }
  }
  if (!expect_kind(Node::Kind::kMap, "a map", node, path, report)) return;
  MapReader reader(node, path, report);
  describe(reader, value);
  reader.finish();
}

template <class T>
void read(const Node& node, const std::string& path, T& value, const Rules& rules, Report& report) {
  // Trees that programs make have no positions, and as many paths as a file of some megabytes.
  if (node.mark.line != 0 || path.ends_with(kBufferLow)) report.place(path, node.mark);
  if (node.unusable) return report.ignore(path);
  if constexpr (IsScalar<T>) {
    read_scalar(node, path, value, rules, report);
  } else if constexpr (kIsList<T>) {
    read_list(node, path, value, rules, report);
  } else if constexpr (requires { value.emplace(); }) {
    read_map(node, path, value.emplace(), report);
  } else {
    read_map(node, path, value, report);
  }
}

// Set the defaults that depend on other keys.
void resolve_defaults(Upstream& upstream) {
  if (upstream.protocol == Protocol::kHttp2 && upstream.tls && upstream.tls->alpn.empty()) {
    upstream.tls->alpn = {"h2"};
  }
}

void resolve_defaults(Config& config, const Report& report) {
  for (size_t i = 0; i < config.listeners.size(); ++i) {
    Listener& listener = config.listeners[i];
    if (listener.tcp && !report.is_placed(absl::StrCat(item_path("listeners", i), kBufferLow))) {
      listener.tcp->buffer_low.bytes = listener.tcp->buffer_high.bytes / 2;
    }
    if (listener.http && listener.tls && listener.tls->alpn.empty()) listener.tls->alpn = {"h2", "http/1.1"};
  }
  if (config.admin && config.admin->tls && config.admin->tls->alpn.empty()) config.admin->tls->alpn = {"http/1.1"};
  for (Upstream& upstream : config.upstreams) resolve_defaults(upstream);
}

absl::StatusOr<Config> load(const Node& root, bool usable, Report& report, std::vector<std::string>* warnings,
                            const FurtherCheck& further, Config config = {}) {
  if (usable && root.kind == Node::Kind::kNull) {
    report.error("", "the file is empty: it needs `listeners` and `upstreams`");
  } else if (usable) {
    read(root, "", config, {}, report);
    resolve_defaults(config, report);
    validate(config, report);
    if (report.ok() && further) further(config, report);
  }
  if (warnings) *warnings = report.warnings();
  if (!report.ok()) return report.status();
  return config;
}

void allow_no_listeners(const Node& root, Report& report) {
  const Node* const listeners = root.find("listeners");
  if (listeners && listeners->items.empty()) report.ignore("listeners");
}

// Puts the upstreams of `trees` into `config`: those of `known_trees` out of `known`, which has the same order, and
// others read anew. Returns which were known.
std::vector<bool> take_upstreams(const std::vector<std::shared_ptr<const Node>>& trees,
                                 const std::vector<std::shared_ptr<const Node>>& known_trees,
                                 std::vector<Upstream> known, Config& config, Report& report) {
  absl::flat_hash_map<const Node*, size_t> index;
  index.reserve(known_trees.size());
  for (size_t i = 0; i < known.size(); ++i) index.emplace(known_trees[i].get(), i);
  std::vector<bool> were_known(trees.size());
  config.upstreams.clear();
  config.upstreams.resize(trees.size());
  for (size_t i = 0; i < trees.size(); ++i) {
    Upstream& upstream = config.upstreams[i];
    const auto found = index.find(trees[i].get());
    were_known[i] = found != index.end();
    if (were_known[i]) {
      upstream = std::move(known[found->second]);
      continue;
    }
    read(*trees[i], item_path("upstreams", i), upstream, {}, report);
    resolve_defaults(upstream);
  }
  return were_known;
}

// Whether all upstreams of `before` are there, with the same protocol. Then what names them need not be checked again.
bool has_all_of(const std::vector<Upstream>& now, const std::vector<Upstream>& before) {
  absl::flat_hash_map<std::string_view, Protocol> protocols;
  protocols.reserve(now.size());
  for (const Upstream& each : now) protocols.emplace(each.name, each.protocol);
  return std::all_of(before.begin(), before.end(), [&](const Upstream& each) {
    const auto found = protocols.find(each.name);
    return found != protocols.end() && found->second == each.protocol;
  });
}

}  // namespace

absl::StatusOr<Config> load_text(std::string_view text, std::string_view name, std::vector<std::string>* warnings,
                                 const FurtherCheck& further) {
  Report report(name);
  Node root;
  const bool usable = read_text(text, root, report);
  return load(root, usable, report, warnings, further);
}

absl::StatusOr<Config> load_tree(const Node& root, std::string_view name, const FurtherCheck& further) {
  Report report(name);
  allow_no_listeners(root, report);
  return load(root, /*usable=*/true, report, nullptr, further);
}

absl::StatusOr<std::shared_ptr<const Config>> PartsLoader::load(TreeParts parts, std::string_view name,
                                                                const FurtherCheck& further) {
  Report report(name);
  allow_no_listeners(*parts.rest, report);
  const bool same_rest = config_ != nullptr && known_.rest == parts.rest;
  Config config = same_rest ? *config_ : defaults_;
  std::vector<Upstream> before;
  if (same_rest) {
    before = std::move(config.upstreams);
  } else {
    read(*parts.rest, "", config, {}, report);
    resolve_defaults(config, report);
    if (config_ != nullptr) before = config_->upstreams;
  }
  const std::vector<bool> known = take_upstreams(parts.upstreams, known_.upstreams, std::move(before), config, report);
  Checked checked{.upstreams = known, .http_forwards = http_forwards_};
  checked.listeners = same_rest && has_all_of(config.upstreams, config_->upstreams);
  validate(config, report, &checked);
  if (report.ok() && further) further(config, report);
  if (!report.ok()) {
    // The findings of all parts are wanted.
    Report full(name);
    const Node all = parts.join();
    allow_no_listeners(all, full);
    absl::StatusOr<Config> loaded = config::load(all, /*usable=*/true, full, nullptr, further, defaults_);
    if (!loaded.ok()) return loaded.status();
    config = *std::move(loaded);
    checked.http_forwards.clear();
    parts.rest = std::make_shared<const Node>(*parts.rest);  // Not known: what was checked is not noted.
  }
  known_ = std::move(parts);
  http_forwards_ = std::move(checked.http_forwards);
  config_ = std::make_shared<const Config>(std::move(config));
  return config_;
}

absl::StatusOr<Config> load_file(const std::string& path, std::vector<std::string>* warnings,
                                 const FurtherCheck& further) {
  Report report(path);
  Node root;
  const absl::StatusOr<bool> usable = read_files(path, root, report);
  if (!usable.ok()) return usable.status();
  return load(root, *usable, report, warnings, further);
}

}  // namespace sluice::config
