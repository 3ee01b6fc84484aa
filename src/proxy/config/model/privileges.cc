#include "proxy/config/model/privileges.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "proxy/common/suggestions.h"

namespace sluice::config {

namespace {

constexpr size_t kMaxAccountBytes = 64;

// No more than what would be read as something else: the system knows which names exist.
bool is_account_name(std::string_view text) {
  return !text.empty() && text.size() <= kMaxAccountBytes && text.front() != '-' &&
         std::ranges::all_of(text, [](char c) { return absl::ascii_isgraph(static_cast<unsigned char>(c)); });
}

}  // namespace

absl::StatusOr<ProcessUser> ProcessUser::parse(std::string_view text) {
  const size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  const std::string_view group = colon == std::string_view::npos ? std::string_view() : text.substr(colon + 1);
  if (!is_account_name(name) || (colon != std::string_view::npos && !is_account_name(group)) ||
      group.find(':') != std::string_view::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a user, or a user and a group such as `sluice:sluice`, got ", in_quotes(text)));
  }
  ProcessUser user;
  user.name_ = name;
  user.group_ = group;
  return user;
}

std::string ProcessUser::text() const { return group_.empty() ? name_ : absl::StrCat(name_, ":", group_); }

}  // namespace sluice::config
