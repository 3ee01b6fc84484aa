#include "proxy/cli/top_command.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "proxy/cli/admin_client.h"
#include "proxy/cli/failure.h"
#include "proxy/cli/top_screen.h"

namespace sluice {

namespace {

constexpr auto kPeriod = std::chrono::seconds(1);
// Of a terminal that does not say how large it is.
constexpr size_t kUsualRows = 24, kUsualColumns = 80;
// Where there is no terminal.
constexpr size_t kAllRows = 1000, kAllColumns = 1000;

// The other screen of the terminal, without a cursor, and back.
constexpr std::string_view kEnter = "\x1b[?1049h\x1b[?25l", kLeave = "\x1b[0m\x1b[?25h\x1b[?1049l";

void write_all(std::string_view text) {
  while (!text.empty()) {
    const ssize_t sent = write(STDOUT_FILENO, text.data(), text.size());
    if (sent <= 0) return;
    text.remove_prefix(static_cast<size_t>(sent));
  }
}

// The state of the terminal, for the handler of signals.
termios g_before_top;
bool g_has_input = false;

// Only calls that signal handlers may make.
void leave_terminal() {
  write_all(kLeave);
  if (g_has_input) tcsetattr(STDIN_FILENO, TCSANOW, &g_before_top);
}

void end_at_signal(int number) {
  leave_terminal();
  _exit(number == SIGINT ? 0 : 128 + number);
}

// The terminal is in another state while this exists.
class Terminal {
 public:
  Terminal() {
    g_has_input = isatty(STDIN_FILENO) && tcgetattr(STDIN_FILENO, &g_before_top) == 0;
    struct sigaction action = {};
    action.sa_handler = end_at_signal;
    for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) sigaction(number, &action, nullptr);
    if (g_has_input) {
      termios raw = g_before_top;
      raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
      raw.c_cc[VSUSP] = _POSIX_VDISABLE;  // To stop would leave the terminal in this state.
      tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    }
    write_all(kEnter);
  }
  ~Terminal() { leave_terminal(); }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  /// Whether `q` is pressed within this time. False at once at a signal, such as one of a changed size.
  static bool quits_within(std::chrono::milliseconds time) {
    pollfd input{.fd = g_has_input ? STDIN_FILENO : -1, .events = POLLIN, .revents = 0};
    if (poll(&input, 1, static_cast<int>(time.count())) <= 0) return false;
    char key = 0;
    if (read(STDIN_FILENO, &key, 1) != 1) return true;  // The terminal is gone.
    return key == 'q' || key == 'Q';
  }
};

absl::StatusOr<std::string> request_page(const AdminClient& client, std::string_view path) {
  absl::StatusOr<AdminClient::Response> response = client.request(path);
  if (!response.ok()) return response.status();
  if (!response->ok()) return absl::UnavailableError(absl::StrCat(path, ": ", response->status, " ", response->reason));
  return std::move(response->body);
}

absl::StatusOr<std::unique_ptr<TopFigures>> read_figures(const AdminClient& client) {
  const auto metrics = request_page(client, "/metrics");
  if (!metrics.ok()) return metrics.status();
  const double now = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  const auto upstreams = request_page(client, "/upstreams");
  if (!upstreams.ok()) return upstreams.status();
  const auto memory = request_page(client, "/memory");
  if (!memory.ok()) return memory.status();
  return std::make_unique<TopFigures>(*metrics, *upstreams, *memory, now);
}

void draw(const TopFigures& before, const TopFigures& now, std::string_view error) {
  winsize size{};
  const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0;
  const size_t rows = known ? size.ws_row : kUsualRows, columns = known ? size.ws_col : kUsualColumns;
  const std::vector<TopLine> lines = top_screen(before, now, error, rows - 1, columns);
  std::string out = "\x1b[H";
  for (const TopLine& line : lines) {
    const bool is_head = line.style == TopLine::Style::kHead, is_bad = line.style == TopLine::Style::kBad;
    absl::StrAppend(&out, is_head ? "\x1b[1m" : is_bad ? "\x1b[31m" : "", line.text, "\x1b[0m\x1b[K\r\n");
  }
  write_all(absl::StrCat(out, "\x1b[J", kTopFoot));
}

int print_once(const TopFigures& before, const TopFigures& now) {
  for (const TopLine& line : top_screen(before, now, "", kAllRows, kAllColumns)) std::printf("%s\n", line.text.c_str());
  return 0;
}

int show(const AdminClient& client, std::unique_ptr<TopFigures> before, std::unique_ptr<TopFigures> now) {
  const Terminal terminal;
  std::string error;
  for (;;) {
    const auto next = std::chrono::steady_clock::now() + kPeriod;
    draw(*before, *now, error);
    while (std::chrono::steady_clock::now() < next) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - std::chrono::steady_clock::now());
      if (Terminal::quits_within(std::max(left, std::chrono::milliseconds(0)))) return 0;
    }
    auto read = read_figures(client);
    error = read.ok() ? "" : absl::StrCat("no figures: ", read.status().message());
    if (!read.ok()) continue;
    before = std::exchange(now, *std::move(read));
  }
}

}  // namespace

int top_command(const Arguments& arguments) {
  if (arguments.has("--config") == arguments.has("--address")) {
    return fail_usage("top", "top needs either --config FILE or --address ADDRESS");
  }
  const absl::StatusOr<AdminClient> client = AdminClient::of(arguments);
  if (!client.ok()) return fail(1, client.status().message());
  auto before = read_figures(*client);
  if (!before.ok()) return fail(1, before.status().message());
  // Rates need two of them.
  std::this_thread::sleep_for(kPeriod);
  auto now = read_figures(*client);
  if (!now.ok()) return fail(1, now.status().message());
  if (!isatty(STDOUT_FILENO)) return print_once(**before, **now);
  return show(*client, *std::move(before), *std::move(now));
}

}  // namespace sluice
