#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "proxy/config/model/config.h"
#include "proxy/http/message/fields.h"

namespace sluice {

/// The token of a request: behind the scheme in the rules' header, else in their cookie. Nothing where there is none,
/// and where the header is there twice: which of them others look at cannot be told.
std::optional<std::string_view> find_token(const config::JwtAuth& rules, const Fields& fields);

/// What Authorization says by the scheme Basic (RFC 7617).
struct NameAndPassword {
  std::string_view name, password;
};
/// A view of `scratch`. Nothing where there is no such field, or two, or it is malformed or longer than the scratch has
/// room for.
std::optional<NameAndPassword> find_password(const Fields& fields, std::span<unsigned char> scratch);

}  // namespace sluice
