// Environment variables in the values of a configuration.
#include "proxy/config/load/variables.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proxy/config/load/loader.h"
#include "proxy/config/load/print.h"
#include "proxy/config/load/yaml.h"

namespace sluice::config {
namespace {

class Variables : public testing::Test {
 protected:
  ~Variables() override {
    for (const std::string& name : set_) unsetenv(name.c_str());
  }

  void set(const std::string& name, const std::string& value) {
    setenv(name.c_str(), value.c_str(), 1);
    set_.push_back(name);
  }

  static std::string expanded(std::string_view text) {
    size_t budget = 1000;
    const absl::StatusOr<std::string> out = expand_variables(text, budget);
    return out.ok() ? *out : absl::StrCat("error: ", out.status().message());
  }

  // The errors of a file whose `lines` come first.
  static std::string errors_of(std::string_view lines) {
    const absl::StatusOr<Config> config = load_text(absl::StrCat(lines, kRest), "f");
    return config.ok() ? "" : std::string(config.status().message());
  }

  static constexpr std::string_view kRest =
      "listeners: [ { name: db, address: 0.0.0.0:5432, tcp: { forward: pg } } ]\n"
      "upstreams: [ { name: pg, endpoints: [ 127.0.0.1:9100 ] } ]\n";

 private:
  std::vector<std::string> set_;
};

TEST_F(Variables, TakeThePlaceOfTheirNames) {
  set("SLUICE_TEST_A", "one");
  set("sluice_test_b2", "two");
  set("SLUICE_TEST_EMPTY", "");
  EXPECT_EQ(expanded("${SLUICE_TEST_A}"), "one");
  EXPECT_EQ(expanded("<${SLUICE_TEST_A}${sluice_test_b2}>"), "<onetwo>");
  EXPECT_EQ(expanded("${SLUICE_TEST_EMPTY}"), "") << "it is set";
}

TEST_F(Variables, Defaults) {
  set("SLUICE_TEST_A", "one");
  set("SLUICE_TEST_EMPTY", "");
  EXPECT_EQ(expanded("${SLUICE_TEST_A:-other}"), "one");
  EXPECT_EQ(expanded("${SLUICE_TEST_UNSET:-other}:80"), "other:80");
  EXPECT_EQ(expanded("${SLUICE_TEST_EMPTY:-other}"), "other") << "as in a shell";
  EXPECT_EQ(expanded("${SLUICE_TEST_UNSET:-}"), "");
  EXPECT_EQ(expanded("${SLUICE_TEST_UNSET:-a:-b$c}"), "a:-b$c");
}

TEST_F(Variables, OtherDollarsStay) {
  for (const char* text :
       {"", "$", "$$", "^/a$", "$1", "$NAME", "$(x)", "%{client_ip}", "$2y$10$abc", "{$}", "$ {A}"}) {
    EXPECT_EQ(expanded(text), text);
  }
}

TEST_F(Variables, LiteralBraces) {
  set("SLUICE_TEST_A", "one");
  EXPECT_EQ(expanded("$${SLUICE_TEST_A}"), "${SLUICE_TEST_A}");
  EXPECT_EQ(expanded("$$${SLUICE_TEST_A}"), "$${SLUICE_TEST_A}");
  EXPECT_EQ(expanded("$${"), "${");
  for (const char* text : {"${", "$${", "$$${A}", "a${b}c$$", "${A:-${B}}", "$"}) {
    EXPECT_EQ(expanded(escape_variables(text)), text);
  }
}

TEST_F(Variables, ValuesAreNotSearched) {
  set("SLUICE_TEST_A", "${SLUICE_TEST_A} $${");
  EXPECT_EQ(expanded("${SLUICE_TEST_A}"), "${SLUICE_TEST_A} $${");
}

TEST_F(Variables, Mistakes) {
  EXPECT_EQ(expanded("a${SLUICE_TEST_UNSET}"),
            "error: the environment variable \"SLUICE_TEST_UNSET\" is not set: set it for the process, or write a "
            "default, as in ${NAME:-default}");
  for (const char* wrong :
       {"${}", "${1A}", "${A B}", "${A-b}", "${A:b}", "${:-b}", "${A.b}", "${A", "${", "${A:-${B}"}) {
    EXPECT_EQ(expanded(absl::StrCat("x", wrong)),
              absl::StrCat("error: expected an environment variable such as ${NAME} or ${NAME:-default}, got \"", wrong,
                           "\"; write $${ where ${ is meant as it is"));
  }
}

TEST_F(Variables, HaveABudget) {
  set("SLUICE_TEST_A", std::string(100, 'x'));
  size_t budget = 250;
  EXPECT_EQ(expand_variables("${SLUICE_TEST_A}${SLUICE_TEST_A}", budget).value(), std::string(200, 'x'));
  EXPECT_EQ(budget, 50U);
  EXPECT_EQ(expand_variables("${SLUICE_TEST_A}", budget).status().message(),
            "the value of the environment variable \"SLUICE_TEST_A\" has 100 bytes, but the bound on the size of a "
            "configuration leaves 50");
  EXPECT_EQ(expand_variables("$${ ${SLUICE_TEST_UNSET:-default}", budget).value(), "${ default");
  EXPECT_EQ(budget, 50U) << "this is the file's own text";
}

TEST_F(Variables, InAConfiguration) {
  set("SLUICE_TEST_PORT", "5433");
  set("SLUICE_TEST_WORKERS", "3");
  set("SLUICE_TEST_BODY", "a: [ b, *c ]\n# d");
  const absl::StatusOr<Config> config = load_text(R"(
workers: ${SLUICE_TEST_WORKERS}
shutdown_timeout: ${SLUICE_TEST_UNSET:-5s}
listeners:
  - { name: db, address: "127.0.0.1:${SLUICE_TEST_PORT}", tcp: { forward: pg } }
  - name: web
    address: '127.0.0.1:${SLUICE_TEST_UNSET:-80}'
    http:
      routes:
        - match: { path: { regex: "/a${SLUICE_TEST_UNSET:-b}c$" } }
          respond: { status: 200, body: "${SLUICE_TEST_BODY}" }
        - respond: { status: 404, body: "$${x}$" }
upstreams:
  - name: pg
    endpoints:
      - &first ${SLUICE_TEST_UNSET:-10.0.0.1}:1
  - { name: other, endpoints: [ *first ] }
)",
                                                  "f");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->workers, 3U);
  EXPECT_EQ(config->shutdown_timeout, std::chrono::seconds(5));
  EXPECT_EQ(config->listeners[0].addresses[0].port(), 5433);
  EXPECT_EQ(config->listeners[1].addresses[0].port(), 80);
  const std::vector<HttpRoute>& routes = config->listeners[1].http->routes;
  EXPECT_EQ(routes[0].match->path->regex.text(), "/abc$");
  EXPECT_EQ(routes[0].respond->body, "a: [ b, *c ]\n# d") << "the value is a text, not YAML";
  EXPECT_EQ(routes[1].respond->body, "${x}$");
  EXPECT_EQ(config->upstreams[1].endpoints, config->upstreams[0].endpoints);
  const std::string printed = print_config(*config);
  EXPECT_EQ(load_text(printed, "printed").value(), *config) << printed;
}

TEST_F(Variables, FindingsHaveThePlaceOfTheValue) {
  set("SLUICE_TEST_A", "many");
  EXPECT_EQ(
      errors_of("limits:\n  max_connections: ${SLUICE_TEST_UNSET}\nworkers: '${SLUICE_TEST_A}'\n"
                "shutdown_timeout: ${A\n"),
      "f:2:20: the environment variable \"SLUICE_TEST_UNSET\" is not set: set it for the process, or write a "
      "default, as in ${NAME:-default}\n"
      "f:3:10: workers: expected auto or a whole number, got \"many\"\n"
      "f:4:19: expected an environment variable such as ${NAME} or ${NAME:-default}, got \"${A\"; write $${ where "
      "${ is meant as it is");
}

// A value that is not known makes no further findings: here the name of an upstream.
TEST_F(Variables, UnsetOnesHaveNoConsequences) {
  const absl::StatusOr<Config> config = load_text(
      "listeners: [ { name: db, address: 0.0.0.0:5432, tcp: { forward: pg } } ]\n"
      "upstreams: [ { name: \"${SLUICE_TEST_UNSET}\", endpoints: [ 127.0.0.1:9100 ] } ]\n",
      "f");
  EXPECT_EQ(config.status().message(),
            "f:2:22: the environment variable \"SLUICE_TEST_UNSET\" is not set: set it for the process, or write a "
            "default, as in ${NAME:-default}");
}

TEST_F(Variables, KeysHaveNone) {
  set("SLUICE_TEST_A", "workers");
  EXPECT_TRUE(
      errors_of("${SLUICE_TEST_A}: 3\n").starts_with("f:1:1: unknown key \"${SLUICE_TEST_A}\" at the top level"));
}

TEST_F(Variables, TogetherAreBounded) {
  set("SLUICE_TEST_A", std::string(100'000, 'x'));
  std::string text = "a:\n";
  for (int i = 0; i < 50; ++i) text += "- ${SLUICE_TEST_A}\n";
  const auto too_large = [](std::string_view at, size_t size) {
    return absl::StrCat(
        "f:", at,
        ": the value of the environment variable \"SLUICE_TEST_A\" has 100000 bytes, but the bound on the "
        "size of a configuration leaves ",
        kMaxYamlBytes - size - kRest.size() - 41 * 100'000);
  };
  EXPECT_EQ(errors_of(text), too_large("43:3", text.size()));
  text = "a: \"";
  for (int i = 0; i < 50; ++i) text += "${SLUICE_TEST_A}";
  text += "\"\n";
  EXPECT_EQ(errors_of(text), too_large("1:4", text.size()));
}

TEST_F(Variables, WithoutQuotesInBrackets) {
  constexpr std::string_view kHint = "; within [ ] and { } a value with ${NAME} needs quotes, as in \"${NAME}\"";
  EXPECT_EQ(errors_of("limits: { max_connections: ${A} }\n"),
            absl::StrCat("f:1:29: YAML syntax: end of map flow not found", kHint));
  EXPECT_EQ(errors_of("a: [ ${A} ]\n"), absl::StrCat("f:1:7: YAML syntax: end of sequence flow not found", kHint));
  EXPECT_EQ(errors_of("a: [ b${A:-1}, c ]\nb: 1\n"),
            absl::StrCat("f:1:8: YAML syntax: end of sequence flow not found", kHint));
}

}  // namespace
}  // namespace sluice::config
