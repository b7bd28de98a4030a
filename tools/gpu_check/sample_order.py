"""The order in which tapeout draws samples: runtime/io/TokenSource.cpp, Permutation.h and runtime/base/Philox.h in Python."""

import math


def philox(counter, key):
    """Philox4x32-10 (Salmon et al. 2011): four random words."""
    a, b, c, d = counter
    k, l = key
    for _ in range(10):
        p, q = 0xD2511F53 * a, 0xCD9E8D57 * c
        a, b, c, d = q >> 32 ^ b ^ k, q & 0xFFFFFFFF, p >> 32 ^ d ^ l, p & 0xFFFFFFFF
        k, l = k + 0x9E3779B9 & 0xFFFFFFFF, l + 0xBB67AE85 & 0xFFFFFFFF
    return a, b, c, d


def keyed_random(seed, epoch, value, tag):
    words = philox((value, epoch & 0xFFFFFFFF, epoch >> 32, tag), (seed & 0xFFFFFFFF, seed >> 32))
    return words[1] << 31 | words[0] >> 1


def permuted(position, count, seed, epoch):
    """Entry `position` of the random order of [0, count)."""
    rows = math.isqrt(count - 1) + 1
    columns = -(-count // rows)
    cell = position
    while True:
        row, column = divmod(cell, columns)
        for tag in range(0, 10, 2):
            row = (row + keyed_random(seed, epoch, column, tag) % rows) % rows
            column = (column + keyed_random(seed, epoch, row, tag + 1) % columns) % columns
        cell = row * columns + column
        if cell < count:
            return cell


def windows(count, context, seed):
    """Offsets of the windows of context + 1 tokens in a text of `count` tokens, without end."""
    epoch = 0
    while True:
        offset = keyed_random(seed, epoch, 0, 0x80000000) % min(context, count - context)
        samples = (count - 1 - offset) // context
        for position in range(samples):
            yield offset + context * permuted(position, samples, seed, epoch)
        epoch += 1
