// A reference to a callable: two pointers, no allocation. The callable must outlive the call it is passed to.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

namespace tapeout::rt {

template <typename Signature> class FunctionRef;

template <typename R, typename... Args> class FunctionRef<R(Args...)> {
public:
  FunctionRef() = default;

  template <typename Callable>
    requires(!std::is_same_v<std::remove_cvref_t<Callable>, FunctionRef>)
  FunctionRef(Callable &&callable)
      : object_(const_cast<void *>(static_cast<const void *>(std::addressof(callable)))),
        call_([](void *object, Args... args) -> R {
          return (*static_cast<std::remove_reference_t<Callable> *>(object))(std::forward<Args>(args)...);
        }) {}

  explicit operator bool() const { return call_; }
  R operator()(Args... args) const { return call_(object_, std::forward<Args>(args)...); }

private:
  void *object_ = nullptr;
  R (*call_)(void *, Args...) = nullptr;
};

} // namespace tapeout::rt
