// Directives that hold in a block because the blocks around it have them.
#pragma once

#include <string_view>
#include <vector>

#include "proxy/convert/nginx/directive.h"

namespace sluice::convert::nginx {

/// A block and those around it. A directive that a block has replaces those of the same name around it.
struct Scope {
  const Directive* block;
  const Scope* outer = nullptr;

  /// The directives of this name in the innermost block that has any.
  std::vector<const Directive*> all(std::string_view name) const {
    for (const Scope* scope = this; scope != nullptr; scope = scope->outer) {
      std::vector<const Directive*> found = scope->block->all(name);
      if (!found.empty()) return found;
    }
    return {};
  }
  /// The first of them, or nullptr.
  const Directive* find(std::string_view name) const {
    const std::vector<const Directive*> found = all(name);
    return found.empty() ? nullptr : found.front();
  }
  /// Its first argument; `other` without it.
  std::string_view value(std::string_view name, std::string_view other = "") const {
    const Directive* const found = find(name);
    return found == nullptr ? other : found->arg(0);
  }
  bool is_on(std::string_view name) const { return value(name) == "on"; }
};

}  // namespace sluice::convert::nginx
