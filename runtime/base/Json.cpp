#include "runtime/base/Json.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <vector>

using namespace tapeout;
using nlohmann::json;

namespace {

/// Walks over the text and leaves its position in `*position`, so that any SAX event can say where it is.
struct Cursor {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char *;
  using reference = const char &;

  const char *at = nullptr;
  const char **position = nullptr;

  reference operator*() const { return *at; }
  Cursor &operator++() {
    *position = ++at;
    return *this;
  }
  bool operator==(const Cursor &other) const { return at == other.at; }
  bool operator!=(const Cursor &other) const { return at != other.at; }
};

/// What a message may show of hostile text: short and printable.
std::string printable(std::string_view text) {
  constexpr size_t limit = 120;
  std::string shown(text.substr(0, limit));
  std::replace_if(
      shown.begin(), shown.end(), [](char c) { return c < 0x20 || c > 0x7e; }, '?');
  return text.size() > limit ? shown + "..." : shown;
}

/// Builds the value from SAX events with an explicit stack of open containers. An event returns false to stop.
class Builder {
public:
  explicit Builder(const JsonLimits &limits) : limits_(limits) {}

  bool null() { return add(nullptr); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(int64_t value) { return add(value); }
  bool number_unsigned(uint64_t value) { return add(value); }
  bool number_float(double value, const std::string &) { return add(value); }
  bool string(std::string &value) { return add(std::move(value)); }
  bool binary(json::binary_t &) { return false; } // not in text

  bool start_object(size_t) { return open(json::object()); }
  bool start_array(size_t) { return open(json::array()); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }

  bool key(std::string &key) {
    auto [place, isNew] = open_.back()->get_ref<json::object_t &>().try_emplace(key);
    member_ = &place->second;
    return isNew || fail(fmt::format("the key \"{}\" appears twice in one object", printable(key)));
  }

  bool parse_error(size_t, const std::string &, const json::exception &error) {
    std::string_view text = error.what();
    if (size_t end = text.find("] "); end != text.npos) // [json.exception.<kind>.<number>]
      text.remove_prefix(end + 2);
    if (size_t end = text.find(": "); text.starts_with("parse error at") && end != text.npos)
      text.remove_prefix(end + 2);
    return fail(printable(text));
  }

  json root;
  std::string error;

private:
  bool fail(std::string message) {
    error = std::move(message);
    return false;
  }

  bool add(json value) { return place(std::move(value)) != nullptr; }

  bool open(json container) {
    if (open_.size() == limits_.depth)
      return fail(fmt::format("arrays and objects are nested deeper than {}", limits_.depth));
    json *placed = place(std::move(container));
    if (placed)
      open_.push_back(placed);
    return placed;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  json *place(json value) {
    if (++values_ > limits_.values) {
      fail(fmt::format("there are more than {} values", limits_.values));
      return nullptr;
    }
    if (open_.empty())
      return &(root = std::move(value));
    if (open_.back()->is_array())
      return &open_.back()->get_ref<json::array_t &>().emplace_back(std::move(value));
    return &(*member_ = std::move(value));
  }

  const JsonLimits &limits_;
  std::vector<json *> open_; ///< the containers around the current position, outermost first
  json *member_ = nullptr;   ///< where the value of the last key goes
  size_t values_ = 0;
};

} // namespace

Result<json> tapeout::parseJson(std::string_view text, std::string_view name, const JsonLimits &limits) {
  if (text.size() > limits.bytes)
    return Status::error(ExitCode::BadData, fmt::format("'{}': the JSON text has {} bytes, more than the {} allowed",
                                                        name, text.size(), limits.bytes));
  const char *position = text.data();
  Builder builder(limits);
  const char *end = text.data() + text.size();
  if (json::sax_parse(Cursor{text.data(), &position}, Cursor{end, &position}, &builder))
    return std::move(builder.root);
  std::string_view seen = text.substr(0, static_cast<size_t>(position - text.data()));
  size_t line = 1 + static_cast<size_t>(std::count(seen.begin(), seen.end(), '\n'));
  size_t column = seen.size() - (seen.rfind('\n') + 1); // npos + 1 is 0
  return Status::error(ExitCode::BadData, fmt::format("'{}' is not acceptable JSON at line {}, column {}: {}", name,
                                                      line, column, builder.error));
}
