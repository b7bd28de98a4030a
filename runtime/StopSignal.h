// SIGINT, SIGTERM, SIGHUP (the terminal is gone) and SIGPIPE (the reader of the output is gone) as a question that the
// training loop asks between two steps.
//
// The signals are blocked instead of handled, so there is no handler and no global state. Make the object before any
// thread starts: threads inherit the mask. Once a stop was seen the signals act as usual again, so that a second Ctrl-C
// ends the process at once.
#pragma once

#include <csignal>
#include <ctime>

namespace tapeout::rt {

class StopSignal {
public:
  StopSignal() {
    sigemptyset(&signals_);
    for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) {
      struct sigaction action;
      if (sigaction(signal, nullptr, &action) == 0 && action.sa_handler != SIG_IGN) // as nohup wants it
        sigaddset(&signals_, signal);
    }
    pthread_sigmask(SIG_BLOCK, &signals_, &previous_);
  }
  ~StopSignal() { pthread_sigmask(SIG_SETMASK, &previous_, nullptr); }
  StopSignal(const StopSignal &) = delete;
  StopSignal &operator=(const StopSignal &) = delete;

  /// Whether the process was asked to stop, now or earlier.
  bool requested() {
    if (signal_ != 0)
      return true;
    timespec noWait{};
    int signal = sigtimedwait(&signals_, nullptr, &noWait);
    if (signal > 0) {
      signal_ = signal;
      if (signal != SIGPIPE) // the last messages must not end the process before its state is saved
        pthread_sigmask(SIG_SETMASK, &previous_, nullptr);
    }
    return signal_ != 0;
  }
  /// Of the signal, "SIGINT" for example, once requested() was true.
  const char *name() const {
    switch (signal_) {
    case SIGINT: return "SIGINT";
    case SIGHUP: return "SIGHUP";
    case SIGPIPE: return "SIGPIPE";
    default: return "SIGTERM";
    }
  }

private:
  sigset_t signals_, previous_;
  int signal_ = 0;
};

} // namespace tapeout::rt
