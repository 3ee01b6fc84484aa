// The name, parser and printer of each type of single value: Scalar<T>. The words of all enums are defined here.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "absl/status/statusor.h"
#include "proxy/config/model/config.h"

namespace sluice::config {

/// Traits of a value type T: `type()` is its name in the reference, `parse(text)` reads it (or returns InvalidArgument,
/// which names what was expected), and `print(value)` returns text that parse() reads back.
template <class T>
struct Scalar;

/// The words of an enum: kWords is in the order of its values.
template <class E>
struct EnumWords {};

template <>
struct EnumWords<ProxyHeaderIn> {
  static constexpr std::string_view kWords[] = {"off", "optional", "required"};
};
template <>
struct EnumWords<ProxyHeaderOut> {
  static constexpr std::string_view kWords[] = {"off", "v1", "v2"};
};
template <>
struct EnumWords<TlsVersion> {
  static constexpr std::string_view kWords[] = {"1.2", "1.3"};
};
template <>
struct EnumWords<ClientCertificate> {
  static constexpr std::string_view kWords[] = {"off", "request", "require"};
};
template <>
struct EnumWords<Rings> {
  static constexpr std::string_view kWords[] = {"auto", "plain", "incremental"};
};
template <>
struct EnumWords<Protocol> {
  static constexpr std::string_view kWords[] = {"auto", "tcp", "http1", "http2"};
};
template <>
struct EnumWords<ForwardedFor> {
  static constexpr std::string_view kWords[] = {"append", "replace", "off"};
};
template <>
struct EnumWords<OnFailure> {
  static constexpr std::string_view kWords[] = {"refuse", "allow"};
};
template <>
struct EnumWords<HalfClose> {
  static constexpr std::string_view kWords[] = {"close", "allow"};
};
template <>
struct EnumWords<EscapedSlashes> {
  static constexpr std::string_view kWords[] = {"reject", "keep", "decode"};
};
template <>
struct EnumWords<Balance> {
  static constexpr std::string_view kWords[] = {"round_robin", "least_connections", "least_request", "random",
                                                "maglev",      "ring_hash"};
};
template <>
struct EnumWords<AddressFamily> {
  static constexpr std::string_view kWords[] = {"auto", "ip4", "ip6"};
};
template <>
struct EnumWords<TrustFrom> {
  static constexpr std::string_view kWords[] = {"never", "trusted", "always"};
};
template <>
struct EnumWords<TraceContext> {
  static constexpr std::string_view kWords[] = {"off", "pass", "make"};
};
template <>
struct EnumWords<Coding> {
  static constexpr std::string_view kWords[] = {"gzip", "br", "zstd"};
};
template <>
struct EnumWords<RetryOn> {
  static constexpr std::string_view kWords[] = {
      "connect_failure",        "refused", "reset", "timeout", "5xx", "gateway_error", "grpc_unavailable",
      "grpc_resource_exhausted"};
};

template <>
struct EnumWords<Priority> {
  static constexpr std::string_view kWords[] = {"high", "normal", "low"};
};
template <>
struct EnumWords<CoreDumps> {
  static constexpr std::string_view kWords[] = {"auto", "on", "off"};
};
template <>
struct EnumWords<LogLevel> {
  static constexpr std::string_view kWords[] = {"debug", "info", "warning", "error"};
};
template <>
struct EnumWords<LogStyle> {
  static constexpr std::string_view kWords[] = {"text", "json"};
};

/// The index of `text` in `words`; InvalidArgument if it is none of them.
absl::StatusOr<size_t> parse_word(std::string_view text, std::span<const std::string_view> words);
/// Formats `words` as "`a`, `b` or `c`", for the reference.
std::string list_words(std::span<const std::string_view> words);

template <class E>
  requires std::is_enum_v<E>
struct Scalar<E> {
  static std::string type() { return list_words(EnumWords<E>::kWords); }
  static absl::StatusOr<E> parse(std::string_view text) {
    const absl::StatusOr<size_t> index = parse_word(text, EnumWords<E>::kWords);
    if (!index.ok()) return index.status();
    return static_cast<E>(*index);
  }
  static std::string print(E value) { return std::string(EnumWords<E>::kWords[static_cast<size_t>(value)]); }
};

template <>
struct Scalar<std::string> {
  static std::string type() { return "text"; }
  static absl::StatusOr<std::string> parse(std::string_view text) { return std::string(text); }
  static std::string print(const std::string& value) { return value; }
};

template <>
struct Scalar<bool> {
  static std::string type() { return "`true` or `false`"; }
  static absl::StatusOr<bool> parse(std::string_view text);
  static std::string print(bool value) { return value ? "true" : "false"; }
};

// The traits of numeric types also convert to and from uint64_t, the type of the bounds in Rules.
template <>
struct Scalar<uint32_t> {
  static std::string type() { return "count"; }
  static absl::StatusOr<uint32_t> parse(std::string_view text) { return parse_count(text); }
  static std::string print(uint32_t value) { return std::to_string(value); }
  static uint64_t number(uint32_t value) { return value; }
  static uint32_t from_number(uint64_t number) { return static_cast<uint32_t>(number); }
};

template <>
struct Scalar<AutoCount> {
  static std::string type() { return "`auto` or count"; }
  static absl::StatusOr<AutoCount> parse(std::string_view text);
  static std::string print(AutoCount value) { return value ? std::to_string(*value) : "auto"; }
  static uint64_t number(AutoCount value) { return value.value_or(1); }  // auto is in every range
  static AutoCount from_number(uint64_t number) { return static_cast<uint32_t>(number); }
};

template <>
struct Scalar<Duration> {
  static std::string type() { return "duration"; }
  static absl::StatusOr<Duration> parse(std::string_view text) { return parse_duration(text); }
  static std::string print(Duration value) { return print_duration(value); }
  static uint64_t number(Duration value) { return static_cast<uint64_t>(value.count()); }
  static Duration from_number(uint64_t number) { return Duration{static_cast<int64_t>(number)}; }
};

template <>
struct Scalar<Size> {
  static std::string type() { return "size"; }
  static absl::StatusOr<Size> parse(std::string_view text) { return parse_size(text); }
  static std::string print(Size value) { return print_size(value); }
  static uint64_t number(Size value) { return value.bytes; }
  static Size from_number(uint64_t number) { return Size{number}; }
};

/// A value whose absence means that another key applies.
template <class T>
  requires std::is_same_v<T, Size> || std::is_same_v<T, Duration>
struct Scalar<std::optional<T>> {
  static std::string type() { return Scalar<T>::type(); }
  static absl::StatusOr<std::optional<T>> parse(std::string_view text) {
    const absl::StatusOr<T> value = Scalar<T>::parse(text);
    if (!value.ok()) return value.status();
    return std::optional<T>(*value);
  }
  static std::string print(const std::optional<T>& value) { return value ? Scalar<T>::print(*value) : ""; }
};

/// The name of a type that has its own parse() and text().
template <class T>
struct TypeName {};
template <>
struct TypeName<Address> {
  static constexpr std::string_view kName = "address";
};
template <>
struct TypeName<EndpointAddress> {
  static constexpr std::string_view kName = "address or name";
};
template <>
struct TypeName<ServiceName> {
  static constexpr std::string_view kName = "name of SRV records";
};
template <>
struct TypeName<Cidr> {
  static constexpr std::string_view kName = "address range";
};
template <>
struct TypeName<HostPattern> {
  static constexpr std::string_view kName = "host name";
};
template <>
struct TypeName<FieldName> {
  static constexpr std::string_view kName = "field name";
};
template <>
struct TypeName<Regex> {
  static constexpr std::string_view kName = "regular expression";
};
template <>
struct TypeName<TextTemplate> {
  static constexpr std::string_view kName = "text with variables";
};
template <>
struct TypeName<LogFormat> {
  static constexpr std::string_view kName = "`default`, `json` or text with variables";
};
template <>
struct TypeName<LogCondition> {
  static constexpr std::string_view kName = "condition";
};
template <>
struct TypeName<Share> {
  static constexpr std::string_view kName = "number from 0 to 1";
};
template <>
struct TypeName<LogTarget> {
  static constexpr std::string_view kName = "`stderr`, `syslog`, `syslog:PATH`, `syslog:ADDRESS:PORT` or path";
};
template <>
struct TypeName<ErrorText> {
  static constexpr std::string_view kName = "text with variables";
};
template <>
struct TypeName<FileMode> {
  static constexpr std::string_view kName = "octal permissions";
};
template <>
struct TypeName<ProcessUser> {
  static constexpr std::string_view kName = "user, or user and group";
};
template <>
struct TypeName<Rate> {
  static constexpr std::string_view kName = "rate";
};
template <>
struct TypeName<Burst> {
  static constexpr std::string_view kName = "`auto`, count or size";
};
template <>
struct TypeName<StatusPattern> {
  static constexpr std::string_view kName = "status";
};

template <class T>
  requires requires { TypeName<T>::kName; }
struct Scalar<T> {
  static std::string type() { return std::string(TypeName<T>::kName); }
  static absl::StatusOr<T> parse(std::string_view text) { return T::parse(text); }
  static std::string print(const T& value) { return std::string(value.text()); }
};

/// A single value, as opposed to a list or a map.
template <class T>
concept IsScalar = requires(std::string_view text) { Scalar<T>::parse(text); };

/// A value that can have bounds.
template <class T>
concept IsNumber = requires(T value) { Scalar<T>::number(value); };

template <class T>
inline constexpr bool kIsList = false;
template <class T>
inline constexpr bool kIsList<std::vector<T>> = true;

/// Whether a value of a field with Rules::omit_empty is left out where the configuration is written.
template <class T>
bool is_unset(const T& value) {
  if constexpr (requires { value.empty(); }) return value.empty();
  if constexpr (requires { value.has_value(); }) return !value.has_value();
  if constexpr (requires { value.is_set(); }) return !value.is_set();
  if constexpr (requires { value.text(); }) return value.text().empty();
  return false;
}

}  // namespace sluice::config
