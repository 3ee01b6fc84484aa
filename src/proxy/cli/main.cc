#include <string_view>
#include <vector>

#include "proxy/cli/cli.h"

int main(int argc, char** argv) {
  const std::vector<std::string_view> arguments(argv + 1, argv + argc);
  return sluice::run_command_line(arguments);
}
