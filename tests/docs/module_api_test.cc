// Every member of the module's table is declared, documented and tested.
#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace fs = std::filesystem;

namespace {

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  REQUIRE(file);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<std::string> members() {
  std::vector<std::string> list;
  std::istringstream lines(read("tests/runtime/module/members.txt"));
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty() && line[0] != '#') list.push_back(line);
  }
  return list;
}

/// Tags of the test cases in a folder.
std::set<std::string> tags(const fs::path& folder) {
  std::set<std::string> found;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".cc") continue;
    const std::string text = read(entry.path());
    const std::regex test_case(R"rx(TEST_CASE\(\s*("[^)]*?")\s*\)\s*\{)rx"), tag(R"(\[(\w+)\])");
    for (std::sregex_iterator c(text.begin(), text.end(), test_case), none; c != none; ++c) {
      const std::string head = (*c)[1];
      for (std::sregex_iterator t(head.begin(), head.end(), tag), end; t != end; ++t) {
        found.insert((*t)[1]);
      }
    }
  }
  return found;
}

/// Whether the text has the word followed by an opening parenthesis.
bool has_call(const std::string& text, const std::string& name) {
  return std::regex_search(text, std::regex("\\b" + name + "\\("));
}

}  // namespace

TEST_CASE("every member of the module is declared, documented and tested") {
  const std::string header = read("trainrt/module.h"), page = read("docs/module.md");
  const std::set<std::string> tested = tags("tests/runtime/module");
  const std::vector<std::string> list = members();
  REQUIRE(list.size() > 50);
  for (const std::string& member : list) {
    INFO(member);
    CHECK(has_call(header, member));
    CHECK(std::regex_search(page, std::regex("\\n\\| (`\\w+`, )*`" + member + "`(, `\\w+`)* \\|")));
    CHECK(tested.contains(member));
  }
}

TEST_CASE("the page has no member that is not there") {
  const std::string header = read("trainrt/module.h"), page = read("docs/module.md");
  const std::regex row(R"(\n\| ((`\w+`(, )?)+) \|)"), name("`(\\w+)`");
  int rows = 0;
  for (std::sregex_iterator r(page.begin(), page.end(), row), none; r != none; ++r) {
    const std::string names = (*r)[1];
    for (std::sregex_iterator n(names.begin(), names.end(), name), end; n != end; ++n) {
      INFO((*n)[1]);
      CHECK(has_call(header, (*n)[1]));
      ++rows;
    }
  }
  CHECK(rows > 50);
}
