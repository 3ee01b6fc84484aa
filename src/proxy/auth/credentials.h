#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "proxy/config/model/config.h"
#include "proxy/http/message/fields.h"

namespace sluice {

/// Returns the token of a request: the text after the scheme in the header that the rules name, else the value of the
/// cookie that they name. Returns nullopt if there is none. A header that occurs twice is ignored, because others may
/// look at either one.
std::optional<std::string_view> find_token(const config::JwtAuth& rules, const Fields& fields);

/// The credentials in Authorization for the scheme Basic (RFC 7617).
struct NameAndPassword {
  std::string_view name, password;
};
/// Returns the name and password of a request as views of `scratch`. Returns nullopt if the field is missing, occurs
/// twice, is malformed, or does not fit in `scratch`.
std::optional<NameAndPassword> find_password(const Fields& fields, std::span<unsigned char> scratch);

}  // namespace sluice
