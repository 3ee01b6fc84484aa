#include "proxy/cli/manual.h"

#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "proxy/cli/command_table.h"
#include "sluice/version.h"

namespace sluice {

namespace {

// Text as roff: code in backquotes is bold, dashes are those of the keyboard.
std::string roff(std::string_view text) {
  std::string out;
  bool is_code = false;
  for (const char c : text) {
    if (c == '`') {
      is_code = !is_code;
      out += is_code ? "\\fB" : "\\fR";
    } else if (c == '-') {
      out += "\\-";
    } else if (c == '\\') {
      out += "\\e";
    } else if (c == '\'') {
      out += "\\(aq";
    } else {
      out += c;
    }
  }
  return absl::StrReplaceAll(out, {{"\n.", "\n\\&."}});
}

void append_terms(std::string& page, const CommandList& list) {
  if (list.rows.empty()) return;
  absl::StrAppend(&page, ".PP\n", roff(list.title), ":\n");
  for (const auto& row : list.rows) {
    absl::StrAppend(&page, ".TP\n\\fB", roff(row.term), "\\fR\n", roff(row.text), "\n");
  }
}

void append_options(std::string& page, const Command& command) {
  if (command.options.empty()) return;
  page += ".PP\nOptions:\n";
  for (const CommandOption& option : command.options) {
    absl::StrAppend(&page, ".TP\n\\fB", roff(option.name), "\\fR");
    if (!option.value.empty()) absl::StrAppend(&page, " \\fI", roff(option.value), "\\fR");
    absl::StrAppend(&page, "\n", roff(option.text), "\n");
  }
}

void append_forms(std::string& page, const Command& command) {
  for (const std::string_view usage : command.usage) {
    absl::StrAppend(&page, ".br\n\\fBsluice ", roff(command.name), "\\fR", usage.empty() ? "" : " ", roff(usage), "\n");
  }
}

constexpr std::string_view kTail = R"(.SH FILES
.TP
.I /etc/sluice/sluice.yaml
The configuration that the service of the package reads.
.TP
.I /var/log/sluice
Where that configuration may write access logs.
.SH SEE ALSO
.BR systemd (1),
.BR systemctl (1),
.BR logrotate (8)
)";

}  // namespace

std::string manual_page() {
  std::string page = absl::StrCat(".TH SLUICE 1 \"\" \"sluice ", SLUICE_VERSION_STRING, "\" \"User Commands\"\n",
                                  ".SH NAME\nsluice \\- edge proxy on io_uring\n.SH SYNOPSIS\n");
  for (const Command& command : all_commands()) append_forms(page, command);
  page +=
      ".SH DESCRIPTION\nSluice forwards TCP connections and HTTP requests to the endpoints of upstreams. An option is "
      "written\n.BI \\-\\-name \" VALUE\"\nor\n.BI \\-\\-name= VALUE\\fR.\n.SH COMMANDS\n";
  for (const Command& command : all_commands()) {
    absl::StrAppend(&page, ".SS sluice ", roff(command.name), "\n");
    append_forms(page, command);
    for (const std::string_view paragraph : absl::StrSplit(command.text, "\n\n", absl::SkipEmpty())) {
      absl::StrAppend(&page, ".PP\n", roff(paragraph), "\n");
    }
    append_options(page, command);
    for (const CommandList& list : command.lists) append_terms(page, list);
    append_terms(page, command.exit_codes);
  }
  page += kTail;
  return page;
}

}  // namespace sluice
