#include "proxy/convert/haproxy/program.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"

namespace sluice::convert::haproxy {
namespace {

using config::Node;

constexpr size_t kMaxRoutes = 1000;
constexpr size_t kMaxWork = 5000;  // Steps that are looked at.
constexpr size_t kMaxDepth = 200;  // Conditions that hold at once.

void append_all(Node& to, const Node& from) { to.items.insert(to.items.end(), from.items.begin(), from.items.end()); }

// Returns false if a second change of the path would have to come after the first.
bool add_changes(Changes& to, const Changes& from) {
  append_all(to.request_headers, from.request_headers);
  append_all(to.response_headers, from.response_headers);
  append_all(to.every_response, from.every_response);
  const auto changes_path = [](const Node& rewrite) {
    return rewrite.find("path") != nullptr || rewrite.find("regex") != nullptr;
  };
  if (changes_path(to.rewrite) && changes_path(from.rewrite)) return false;
  for (size_t i = 0; i < from.rewrite.keys.size(); ++i)
    put(to.rewrite, from.rewrite.keys[i].text, from.rewrite.items[i]);
  return true;
}

// The steps of the frontend, and behind them those of the backend that was chosen.
struct Position {
  const std::vector<Step>* steps;
  size_t step = 0;
  size_t conjunction = 0;  // Those of the step before it do not hold.
  const BackendSteps* backend = nullptr;
};

class Compiler {
 public:
  Compiler(const std::function<BackendSteps(const std::string&, const Line&)>& backend, State& state)
      : backend_(backend), state_(state) {}

  std::vector<Route> compile(const std::vector<Step>& steps) {
    run({.steps = &steps}, {}, {}, 0);
    return std::move(routes_);
  }

 private:
  void add(const RequestSet& when, Node out) { routes_.push_back({.when = when, .out = std::move(out)}); }

  // Nobody is let in where it is not known what would become of the request.
  void close(const RequestSet& when, const Line* line, std::string_view why) {
    if (line != nullptr) state_.refuse(*line, absl::StrCat(why, ": requests that get here get 403"));
    add(when, respond_node(403));
  }

  // Appends the routes of all requests in `when` that have come to this position.
  void run(Position at, const RequestSet& when, const Changes& changes, size_t depth) {
    for (;; ++at.step, at.conjunction = 0) {
      if (at.step == at.steps->size()) return finish(at, when, changes);
      const Step& step = (*at.steps)[at.step];
      if (++work_ > kMaxWork || routes_.size() > kMaxRoutes || depth > kMaxDepth) {
        return close(when, step.line, "the rules make too many routes");
      }
      for (; at.conjunction < step.when.any.size(); ++at.conjunction) {
        if (!apply(at, step.when.any[at.conjunction], when, changes, depth)) return;
      }
    }
  }

  // Appends the routes of the requests for which the conjunction holds, behind those for which it does not although its
  // other factors do. Returns false if that are all there are.
  bool apply(const Position& at, const Conjunction& conjunction, const RequestSet& when, const Changes& changes,
             size_t depth) {
    std::vector<RequestSet> matched{when};
    bool takes_all = true;  // But for those that are excluded.
    for (const Factor& factor : conjunction) {
      if (factor.negated) continue;
      takes_all = false;
      if (!narrow_all(matched, factor.predicate.any)) {
        close(when, (*at.steps)[at.step].line, "its conditions cannot be put together");
        return false;
      }
    }
    for (const RequestSet& set : matched) {
      for (const Factor& factor : conjunction) {
        if (!factor.negated) continue;
        std::vector<RequestSet> excluded{set};
        if (!narrow_all(excluded, factor.predicate.any)) {
          close(when, (*at.steps)[at.step].line, "its conditions cannot be put together");
          return false;
        }
        Position next = at;
        ++next.conjunction;
        for (const RequestSet& each : excluded) resume(next, each, changes, depth + 1);
      }
      take(at, set, changes, depth);
    }
    return !takes_all;
  }

  // Goes on in the middle of a step.
  void resume(Position at, const RequestSet& when, const Changes& changes, size_t depth) {
    const Step& step = (*at.steps)[at.step];
    if (++work_ > kMaxWork || routes_.size() > kMaxRoutes || depth > kMaxDepth) {
      return close(when, step.line, "the rules make too many routes");
    }
    for (; at.conjunction < step.when.any.size(); ++at.conjunction) {
      if (!apply(at, step.when.any[at.conjunction], when, changes, depth)) return;
    }
    run({.steps = at.steps, .step = at.step + 1, .backend = at.backend}, when, changes, depth);
  }

  void take(const Position& at, const RequestSet& when, const Changes& changes, size_t depth) {
    const Step& step = (*at.steps)[at.step];
    Position next{.steps = at.steps, .step = at.step + 1, .backend = at.backend};
    switch (step.kind) {
      case Step::Kind::kEnd:
        return add(when, with_response(step.out, changes.every_response));
      case Step::Kind::kChange: {
        Changes more = changes;
        if (!add_changes(more, step.changes)) return close(when, step.line, "a path is changed once");
        return run(next, when, more, depth + 1);
      }
      case Step::Kind::kSkip:
        while (next.step < at.steps->size() && is_of_connection((*at.steps)[next.step])) ++next.step;
        return run(next, when, changes, depth + 1);
      case Step::Kind::kBackend:
        const BackendSteps& backend = backend_steps(step);
        return run({.steps = &backend.steps, .backend = &backend}, when, changes, depth + 1);
    }
  }

  static bool is_of_connection(const Step& step) {
    return step.line != nullptr && step.line->keyword() == "tcp-request";
  }

  // Leaves the requests that are in one of `any`, too. Returns false if that cannot be said.
  static bool narrow_all(std::vector<RequestSet>& sets, const std::vector<RequestSet>& any) {
    std::vector<RequestSet> made;
    for (const RequestSet& set : sets) {
      for (const RequestSet& by : any) {
        RequestSet both = set;
        const Narrowing narrowed = narrow(both, by);
        if (narrowed == Narrowing::kUnknown) return false;
        if (narrowed == Narrowing::kDone) made.push_back(std::move(both));
        if (made.size() > kMaxRoutes) return false;
      }
    }
    sets = std::move(made);
    return true;
  }

  const BackendSteps& backend_steps(const Step& step) {
    const auto known = backends_.find(step.backend);
    if (known != backends_.end()) return known->second;
    return backends_.emplace(step.backend, backend_(step.backend, *step.line)).first->second;
  }

  static Node with_response(const Node& out, const Node& headers) {
    Node made = out;
    if (headers.items.empty()) return made;
    Node& fields = list_at(made, "response_headers");
    Node all = headers;
    append_all(all, fields);
    fields = std::move(all);
    return made;
  }

  void finish(const Position& at, const RequestSet& when, const Changes& changes) {
    if (at.backend == nullptr || !at.backend->upstream) return add(when, respond_node(503));
    Node out = map_node();
    put(out, "forward", *at.backend->upstream);
    if (!changes.rewrite.keys.empty()) put(out, "rewrite", changes.rewrite);
    if (!changes.request_headers.items.empty()) put(out, "request_headers", changes.request_headers);
    out = with_response(with_response(out, changes.response_headers), changes.every_response);
    for (size_t i = 0; i < at.backend->keys.keys.size(); ++i)
      put(out, at.backend->keys.keys[i].text, at.backend->keys.items[i]);
    add(when, std::move(out));
  }

  const std::function<BackendSteps(const std::string&, const Line&)>& backend_;
  State& state_;
  std::map<std::string, BackendSteps> backends_;
  std::vector<Route> routes_;
  size_t work_ = 0;
};

}  // namespace

std::vector<Route> routes_of(const std::vector<Step>& steps,
                             const std::function<BackendSteps(const std::string&, const Line&)>& backend,
                             State& state) {
  return Compiler(backend, state).compile(steps);
}

}  // namespace sluice::convert::haproxy
