// Documentation that cannot go stale: links lead somewhere, C and C++ in it are compiled (they
// stand word for word in examples/), options it names exist in the program and the other way round.
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace fs = std::filesystem;

namespace {

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<fs::path> pages() {
  std::vector<fs::path> found;
  for (const fs::path folder : {".", "docs", "examples"}) {
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (entry.path().extension() == ".md") found.push_back(entry.path());
    }
  }
  return found;
}

/// Contents of ```LANGUAGE blocks.
std::vector<std::string> blocks(const std::string& text, const std::string& language) {
  std::vector<std::string> found;
  const std::string open = "```" + language + "\n";
  for (size_t at = text.find(open); at != std::string::npos; at = text.find(open, at)) {
    at += open.size();
    const size_t end = text.find("```", at);
    found.push_back(text.substr(at, end - at));
    at = end;
  }
  return found;
}

std::string output_of(const std::string& command) {
  std::string text;
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::array<char, 4096> buffer{};
  while (const size_t n = fread(buffer.data(), 1, buffer.size(), pipe))
    text.append(buffer.data(), n);
  pclose(pipe);
  return text;
}

std::set<std::string> options_in(const std::string& text) {
  static const std::regex kOption("--[a-z][a-z0-9-]*");
  std::set<std::string> found;
  for (std::sregex_iterator it(text.begin(), text.end(), kOption), end; it != end; ++it) {
    found.insert(it->str());
  }
  return found;
}

}  // namespace

TEST_CASE("links between pages lead to files that exist") {
  static const std::regex kLink(R"(\]\(([^)#:]+)(#[^)]*)?\))");
  REQUIRE(pages().size() >= 8);
  for (const fs::path& page : pages()) {
    const std::string text = read(page);
    for (std::sregex_iterator it(text.begin(), text.end(), kLink), end; it != end; ++it) {
      INFO(page << " links to " << (*it)[1].str());
      CHECK(fs::exists(page.parent_path() / (*it)[1].str()));
    }
  }
}

TEST_CASE("C and C++ in the documentation stand word for word in examples/") {
  for (const auto& [language, extension] : {std::pair("cpp", ".cc"), std::pair("c", ".c")}) {
    std::string sources;
    for (const auto& entry : fs::recursive_directory_iterator("examples")) {
      if (entry.path().extension() == extension) sources += read(entry.path());
    }
    REQUIRE(!sources.empty());
    size_t count = 0;
    for (const fs::path& page : pages()) {
      for (const std::string& block : blocks(read(page), language)) {
        INFO(page << ":\n" << block);
        CHECK(sources.find(block) != std::string::npos);
        ++count;
      }
    }
    CHECK(count >= 3);
  }
}

TEST_CASE("docs/cli.md names every option of the program, and no other") {
  const std::string page = read("docs/cli.md");
  std::set<std::string> offered;
  for (const std::string command : {"run", "check", "inspect", "grad", "eval", "predict", "bench",
                                    "graph", "devices", "version"}) {
    const std::string help = output_of("runtime/cli/trainrt " + command + " --help");
    INFO(command << ":\n" << help);
    CHECK(page.find("trainrt " + command) != std::string::npos);
    for (const std::string& option : options_in(help)) offered.insert(option);
  }
  REQUIRE(offered.size() > 20);
  const std::set<std::string> documented = options_in(page);
  for (const std::string& option : offered) {
    INFO(option << " is missing in docs/cli.md");
    CHECK(documented.contains(option));
  }
  for (const std::string& option : documented) {
    INFO(option << " of docs/cli.md is no option of the program");
    CHECK(offered.contains(option));
  }
}

TEST_CASE("options in the README and the guide exist") {
  const std::set<std::string> documented = options_in(read("docs/cli.md"));
  for (const char* page : {"README.md", "docs/guide.md"}) {
    for (const std::string& block : blocks(read(page), "sh")) {
      std::istringstream lines(block);
      for (std::string line; std::getline(lines, line);) {
        if (line.find("trainrt") == std::string::npos || line.find("bazel") == 0) continue;
        for (const std::string& option : options_in(line)) {
          INFO(page << ": " << line);
          CHECK(documented.contains(option));
        }
      }
    }
  }
}
