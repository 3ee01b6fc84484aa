// Configurations of several files: which files are read, how they are merged, and where their findings are.
#include "proxy/config/load/include.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "proxy/config/load/loader.h"
#include "proxy/config/load/print.h"
#include "proxy/config/load/yaml.h"

namespace sluice::config {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kUpstream = "upstreams: [ { name: pg, endpoints: [ 127.0.0.1:9100 ] } ]\n";

std::string listener(int number) {
  return absl::StrCat("listeners: [ { name: l", number, ", address: \"127.0.0.1:", 5000 + number,
                      "\", tcp: { forward: pg } } ]\n");
}

class Include : public testing::Test {
 protected:
  Include() {
    std::string pattern = testing::TempDir() + "/sluice_include_test_XXXXXX";
    folder_ = mkdtemp(pattern.data());
  }
  ~Include() override { fs::remove_all(folder_); }

  fs::path path(std::string_view name) const { return folder_ / name; }

  void write(std::string_view name, std::string_view text) const {
    fs::create_directories(path(name).parent_path());
    std::ofstream(path(name)) << text;
  }

  absl::StatusOr<Config> load(std::string_view name = "main.yaml") const { return load_file(path(name).string()); }

  // The errors, with paths as they are within the folder.
  std::string errors() const {
    const absl::StatusOr<Config> config = load();
    if (config.ok()) return "";
    return absl::StrReplaceAll(config.status().message(), {{absl::StrCat(folder_.string(), "/"), ""}});
  }

  static std::string names(const absl::StatusOr<Config>& config) {
    if (!config.ok()) return std::string(config.status().message());
    std::vector<std::string> names;
    for (const Listener& listener : config->listeners) names.push_back(listener.name);
    for (const Upstream& upstream : config->upstreams) names.push_back(upstream.name);
    return absl::StrJoin(names, " ");
  }

  fs::path folder_;
};

TEST_F(Include, AppendsListsInTheOrderOfTheFiles) {
  write("main.yaml", absl::StrCat("workers: 3\n", listener(0), "include: [ conf.d/*.yaml, last.yaml ]\n", kUpstream));
  write("conf.d/b.yaml", listener(2));
  write("conf.d/a.yaml", absl::StrCat(listener(1), "shutdown_timeout: 5s\n"));
  write("conf.d/B.yaml", "upstreams: [ { name: other, endpoints: [ 127.0.0.1:9101 ] } ]\n");
  write("conf.d/c.yaml.old", "no: configuration\n");
  write("conf.d/.hidden.yaml", "no: configuration\n");
  write("last.yaml", listener(3));
  const absl::StatusOr<Config> config = load();
  EXPECT_EQ(names(config), "l0 l1 l2 l3 pg other");
  EXPECT_EQ(config->workers, 3U);
  EXPECT_EQ(config->shutdown_timeout, std::chrono::seconds(5));
}

TEST_F(Include, PrintsTheWhole) {
  write("main.yaml", absl::StrCat("include: part.yaml\n", kUpstream));
  write("part.yaml", listener(1));
  const std::string printed = print_config(*load());
  EXPECT_EQ(printed.find("include"), std::string::npos);
  EXPECT_EQ(load_text(printed, "printed").value(), *load());
}

TEST_F(Include, TheMainFileMayHaveNothingElse) {
  write("main.yaml", "include: [ a.yaml, empty.yaml, b.yaml ]\n");
  write("a.yaml", listener(1));
  write("b.yaml", kUpstream);
  write("empty.yaml", "# nothing\n");
  EXPECT_EQ(names(load()), "l1 pg");
}

TEST_F(Include, PathsBeginAtTheFolderOfTheirFile) {
  write("main.yaml", absl::StrCat("include: a/part.yaml\n", kUpstream));
  write("a/part.yaml", absl::StrCat("include: [ ../b/*.yaml, near.yaml, ", path("absolute.yaml").string(), ", ",
                                    path("c").string(), "/*.yaml ]\n"));
  write("a/near.yaml", listener(2));
  write("b/part.yaml", listener(1));
  write("absolute.yaml", listener(3));
  write("c/part.yaml", listener(4));
  EXPECT_EQ(names(load()), "l1 l2 l3 l4 pg");
}

TEST_F(Include, OfAFileInTheWorkingDirectory) {
  write("main.yaml", absl::StrCat("include: conf.d/*.yaml\n", kUpstream));
  write("conf.d/part.yaml", absl::StrCat(listener(1), "nothing: 1\n"));
  const fs::path before = fs::current_path();
  fs::current_path(folder_);
  const absl::StatusOr<Config> config = load_file("main.yaml");
  fs::current_path(before);
  EXPECT_TRUE(config.status().message().starts_with("conf.d/part.yaml:2:1: unknown key \"nothing\""))
      << config.status();
}

TEST_F(Include, FoldersWithWildcardsInTheirNames) {
  write("[a]*/main.yaml", absl::StrCat("include: '*/part.yaml'\n", kUpstream));
  write("[a]*/x/part.yaml", listener(1));
  write("a/x/part.yaml", listener(2));
  EXPECT_EQ(names(load("[a]*/main.yaml")), "l1 pg");
}

TEST_F(Include, Wildcards) {
  write("main.yaml",
        absl::StrCat("include: [ 'a?.yaml', 'b[1-2].yaml', 'c\\*.yaml' , none/*.yaml, '*.none' ]\n", kUpstream));
  write("a1.yaml", listener(1));
  write("a22.yaml", listener(22));
  write("b2.yaml", listener(2));
  write("b3.yaml", listener(33));
  write("c*.yaml", listener(3));
  write("cc.yaml", listener(34));
  EXPECT_EQ(names(load()), "l1 l2 l3 pg") << "patterns without a match are no mistake";
}

TEST_F(Include, FilesThatCannotBeRead) {
  write("main.yaml", absl::StrCat(listener(1), kUpstream, "include: [ none.yaml,\n  folder, 'fol*', queue ]\n"));
  write("folder/x", "");
  ASSERT_EQ(mkfifo(path("queue").c_str(), 0600), 0);
  EXPECT_EQ(errors(),
            "main.yaml:3:12: include: cannot open none.yaml: No such file or directory\n"
            "main.yaml:4:3: include: cannot read folder: it is not a regular file\n"
            "main.yaml:4:11: include: cannot read folder: it is not a regular file\n"
            "main.yaml:4:19: include: cannot read queue: it is not a regular file");
}

TEST_F(Include, FoldersThatCannotBeRead) {
  write("main.yaml", absl::StrCat(listener(1), kUpstream, "include: secret/*.yaml\n"));
  write("secret/a.yaml", "");
  fs::permissions(path("secret"), fs::perms::none);
  const bool is_root = access(path("secret").c_str(), R_OK) == 0;
  EXPECT_EQ(errors(), is_root ? ""
                              : "main.yaml:3:10: include: cannot read all folders of \"secret/*.yaml\": check their "
                                "permissions");
  fs::permissions(path("secret"), fs::perms::all);
}

TEST_F(Include, WrongValues) {
  write("main.yaml", absl::StrCat(listener(1), kUpstream, "include: { a: b }\n"));
  constexpr std::string_view kExpected =
      "include: expected the path of a file, or a pattern such as conf.d/*.yaml, got ";
  EXPECT_EQ(errors(), absl::StrCat("main.yaml:3:10: ", kExpected, "a map"));
  write("main.yaml", absl::StrCat(listener(1), kUpstream, "include: [ [ a ], '', \"a\\0b\" ]\n"));
  EXPECT_EQ(errors(), absl::StrCat("main.yaml:3:12: ", kExpected, "a list\nmain.yaml:3:19: ", kExpected,
                                   "\"\"\nmain.yaml:3:23: ", kExpected, "\"a\\x00\\x62\""));
  write("main.yaml", absl::StrCat(listener(1), kUpstream, "include:\n"));
  EXPECT_EQ(errors(), absl::StrCat("main.yaml:3:1: ", kExpected, "nothing"));
  write("main.yaml", absl::StrCat(listener(1), kUpstream, "include: []\n"));
  EXPECT_EQ(errors(), "");
  write("main.yaml", absl::StrCat("include: a.yaml\n", listener(1), kUpstream, "include: b.yaml\n"));
  write("a.yaml", "");
  EXPECT_EQ(errors(), "main.yaml:4:1: duplicate key \"include\": it is already at 1:1");
}

TEST_F(Include, IsATopLevelKey) {
  write("main.yaml", absl::StrCat("limits: { include: a.yaml }\n", listener(1), kUpstream));
  EXPECT_EQ(errors(), "main.yaml:1:11: unknown key \"include\" in limits; the keys here are max_connections");
}

TEST_F(Include, NeedsAFile) {
  EXPECT_EQ(load_text(absl::StrCat(listener(1), kUpstream, "include: /etc/*\n"), "f").status().message(),
            "f:3:1: include: only a file can include others, since paths begin at its folder");
}

TEST_F(Include, OtherKeysAreInOneFile) {
  write("main.yaml", absl::StrCat("workers: 1\ninclude: [ a.yaml, b.yaml ]\n", listener(1), kUpstream));
  write("a.yaml", "limits: { max_connections: many }\n");
  write("b.yaml", "workers: 1\nlimits: {}\nlisteners: { name: x }\n");
  EXPECT_EQ(errors(),
            "a.yaml:1:28: limits.max_connections: expected auto or a whole number, got \"many\"\n"
            "b.yaml:1:1: \"workers\" is already at main.yaml:1:1; only rate_limits, listeners, upstreams may be in "
            "several files\n"
            "b.yaml:2:1: \"limits\" is already at a.yaml:1:1; only rate_limits, listeners, upstreams may be in several "
            "files\n"
            "b.yaml:3:12: listeners: expected a list, got a map");
  write("main.yaml", absl::StrCat("include: a.yaml\nlisteners:\n", kUpstream));
  write("a.yaml", listener(1));
  EXPECT_EQ(errors(), "main.yaml:2:1: listeners: expected a list, got nothing");
}

TEST_F(Include, FindingsAreInTheOrderOfTheFiles) {
  write("main.yaml", absl::StrCat("include: [ b.yaml, a.yaml ]\n", kUpstream, listener(1), "wrkers: 1\n"));
  write("a.yaml", "upstreams:\n- { name: x, endpoints: [ 127.0.0.1:0 ] }\n");
  write("b.yaml", absl::StrCat("include: c.yaml\n", absl::StrReplaceAll(listener(2), {{"pg", "gp"}})));
  write("c.yaml", absl::StrCat("# c\n", listener(1)));
  EXPECT_EQ(
      errors(),
      "main.yaml:4:1: unknown key \"wrkers\" at the top level; did you mean \"workers\"?\n"
      "b.yaml:2:69: listeners[1].tcp.forward: there is no upstream \"gp\"; did you mean \"pg\"?\n"
      "c.yaml:2:22: listeners[2].name: \"l1\" is already the name of listeners[0] (main.yaml:3:14); names must be "
      "unique\n"
      "c.yaml:2:35: listeners[2].address: 127.0.0.1:5001 is already the address of listeners[0] (main.yaml:3:14); give "
      "all "
      "but one of the listeners at an address `server_names`\n"
      "a.yaml:2:27: upstreams[1].endpoints[0]: expected a port from 1 to 65535, got \"127.0.0.1:0\"");
}

// What a broken file would have had makes no findings elsewhere.
TEST_F(Include, ABrokenFileHasNoConsequences) {
  write("main.yaml", absl::StrCat("include: [ a.yaml, b.yaml, c.yaml ]\n", listener(1)));
  write("a.yaml", "upstreams: [ }\n");
  write("b.yaml", "- 1\n");
  write("c.yaml", "a: \x01\n");
  EXPECT_EQ(errors(),
            "a.yaml:1:14: YAML syntax: illegal flow end\n"
            "b.yaml:1:1: expected a map, got a list\n"
            "c.yaml:1:4: control character 0x01: the file must be UTF-8 text");
}

TEST_F(Include, WhatIsMissingIsMissingInTheMainFile) {
  write("main.yaml", "\ninclude: a.yaml\n");
  write("a.yaml", kUpstream);
  EXPECT_EQ(errors(), "main.yaml:2:1: missing key \"listeners\" at the top level");
}

TEST_F(Include, EachFileOnce) {
  write("main.yaml", absl::StrCat("include: [ a.yaml, '*.yaml', b/../a.yaml, link ]\n", listener(1), kUpstream));
  write("a.yaml", "");
  write("b/x", "");
  fs::create_symlink("a.yaml", path("link"));
  EXPECT_EQ(errors(),
            "main.yaml:1:20: include: a.yaml is already included at main.yaml:1:12\n"
            "main.yaml:1:20: include: main.yaml would include itself\n"
            "main.yaml:1:30: include: b/../a.yaml is already included at main.yaml:1:12\n"
            "main.yaml:1:43: include: link is already included at main.yaml:1:12");
}

TEST_F(Include, Circles) {
  write("main.yaml", absl::StrCat("include: a.yaml\n", listener(1), kUpstream));
  write("a.yaml", "\ninclude: b.yaml\n");
  write("b.yaml", "\n\ninclude: [ a.yaml, main.yaml, b.yaml ]\n");
  EXPECT_EQ(errors(),
            "b.yaml:3:12: include: a.yaml would include itself\n"
            "b.yaml:3:20: include: main.yaml would include itself\n"
            "b.yaml:3:31: include: b.yaml would include itself");
}

TEST_F(Include, DepthIsBounded) {
  write("main.yaml", absl::StrCat("include: 1.yaml\n", kUpstream));
  for (size_t i = 1; i < kMaxIncludeDepth; ++i)
    write(absl::StrCat(i, ".yaml"), absl::StrCat("include: ", i + 1, ".yaml\n"));
  write("4.yaml", listener(1));
  EXPECT_EQ(names(load()), "l1 pg");
  write("4.yaml", "include: none/*\n");
  EXPECT_EQ(errors(), "4.yaml:1:1: include: files that include each other are nested more than 4 deep");
}

TEST_F(Include, FilesAreBounded) {
  write("main.yaml", absl::StrCat("include: conf.d/*\n", listener(1), kUpstream));
  for (size_t i = 1; i < kMaxFiles; ++i) write(absl::StrCat("conf.d/", i), "");
  EXPECT_EQ(names(load()), "l1 pg");
  write("conf.d/x", "");
  write("conf.d/y", "");
  EXPECT_EQ(errors(), "main.yaml:1:10: include: the configuration has more than 256 files");
}

TEST_F(Include, BytesOfAllFilesAreBounded) {
  write("main.yaml", absl::StrCat("include: [ a.yaml, b.yaml ]\n", listener(1), kUpstream));
  write("a.yaml", std::string(kMaxYamlBytes / 2, '\n'));
  write("b.yaml", std::string(kMaxYamlBytes / 4, '\n'));
  EXPECT_EQ(names(load()), "l1 pg");
  write("b.yaml", std::string(kMaxYamlBytes / 2, '\n'));
  EXPECT_EQ(errors(), "b.yaml: with this file the configuration is larger than 4 MiB");
}

TEST_F(Include, NodesOfAllFilesAreBounded) {
  std::string half = "[";
  for (size_t i = 0; i < kMaxYamlNodes / 2; ++i) half += "1,";
  write("main.yaml", absl::StrCat("include: [ a.yaml, b.yaml, c.yaml ]\n", listener(1), kUpstream));
  write("a.yaml", absl::StrCat("a: ", half, "]\n"));
  write("b.yaml", absl::StrCat("b:\n  ", half, "]\n"));
  write("c.yaml", "c: 1\n");
  const std::string found = errors();
  EXPECT_TRUE(found.starts_with("b.yaml:2:")) << found;
  EXPECT_TRUE(found.ends_with(": more than 524288 keys and values\nc.yaml:1:1: more than 524288 keys and values"))
      << found << ": nothing is left for later files";
}

TEST_F(Include, VariablesInPaths) {
  setenv("SLUICE_TEST_PART", "part", 1);
  write("main.yaml", absl::StrCat("include: [ '${SLUICE_TEST_PART}*.yaml' ]\n", kUpstream));
  write("part1.yaml", listener(1));
  EXPECT_EQ(names(load()), "l1 pg");
  unsetenv("SLUICE_TEST_PART");
  EXPECT_EQ(
      errors(),
      "main.yaml:1:12: the environment variable \"SLUICE_TEST_PART\" is not set: set it for the process, or write a "
      "default, as in ${NAME:-default}");
}

TEST_F(Include, AnchorsAreOfTheirFile) {
  write("main.yaml",
        absl::StrCat("include: a.yaml\n", absl::StrReplaceAll(listener(1), {{"tcp: ", "tcp: &t "}}), kUpstream));
  write("a.yaml", "listeners: [ { name: b, address: 127.0.0.1:1, tcp: *t } ]\n");
  EXPECT_TRUE(errors().starts_with("a.yaml:1:52: YAML syntax: the referenced anchor is not defined")) << errors();
}

TEST_F(Include, TheFileItselfIsAnErrorOfTheSystem) { EXPECT_EQ(load().status().code(), absl::StatusCode::kNotFound); }

TEST_F(Include, WarningsHaveTheirFile) {
  write("main.yaml", absl::StrCat("include: a.yaml\n", listener(1)));
  write("a.yaml", absl::StrReplaceAll(kUpstream, {{"name: pg", "name: pg, alts: { handshaker: 127.0.0.1:8080 }"}}));
  std::vector<std::string> warnings;
  ASSERT_TRUE(load_file(path("main.yaml").string(), &warnings).ok());
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_TRUE(warnings[0].starts_with(absl::StrCat(path("a.yaml").string(), ":1:"))) << warnings[0];
}

}  // namespace
}  // namespace sluice::config
