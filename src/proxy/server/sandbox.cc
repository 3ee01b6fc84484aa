#include "proxy/server/sandbox.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <utility>

#include "proxy/http/proxy/body_file.h"
#include "proxy/server/config_files.h"

namespace sluice {

namespace {

using std::filesystem::path;

// Names of hosts and users, certificates of authorities, time zones, libraries, and the kernel's files about the
// process and the machine; and the program's file, which profiles read the names of functions from.
constexpr const char* kSystem[] = {"/etc", "/usr", "/lib", "/lib64", "/proc", "/sys", "/dev", "/proc/self/exe"};
constexpr const char* kNameServers = "/etc/resolv.conf";

std::string folder_of(const path& file) {
  const path folder = file.parent_path();
  return folder.empty() ? "." : folder.string();
}

path real(const path& name) {
  std::error_code error;
  path found = std::filesystem::weakly_canonical(name, error);
  return error ? name : found;
}

// The folder of the file and, if it is a symbolic link, that of its target.
void add_folders(const std::string& file, std::vector<std::string>& folders) {
  for (std::string folder : {folder_of(file), folder_of(real(file))}) {
    if (std::ranges::find(folders, folder) == folders.end()) folders.push_back(std::move(folder));
  }
}

void add_socket(const config::Address& address, std::vector<std::string>& folders) {
  if (address.kind() != config::Address::Kind::kUnix) return;
  const std::string text = address.text(), file = text.substr(text.find(':') + 1);
  if (!file.starts_with('@')) add_folders(file, folders);
}

}  // namespace

AllowedFiles sandbox_files(const config::Config& config, const std::vector<std::string>& files) {
  AllowedFiles allowed{.read = {std::begin(kSystem), std::end(kSystem)}, .write = {"/dev/null"}};
  add_folders(kNameServers, allowed.read);
  for (const std::string& each : files) add_folders(each, allowed.read);
  for (const std::string& each : files_of(config)) add_folders(each, allowed.read);
  for (const std::string& each : log_files_of(config)) add_folders(each, allowed.write);
  if (std::ranges::any_of(config.listeners, [](const auto& each) { return each.http && keeps_bodies(*each.http); })) {
    allowed.write.push_back(config.body_file.directory);
  }
  for (const config::Listener& listener : config.listeners) {
    for (const config::Address& each : listener.addresses) add_socket(each, allowed.write);
  }
  if (config.admin) {
    for (const config::Address& each : config.admin->addresses) add_socket(each, allowed.write);
  }
  return allowed;
}

}  // namespace sluice
