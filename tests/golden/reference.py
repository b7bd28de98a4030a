"""The same trainings as tapeout's, in PyTorch: models, initial parameters, data and optimizer, for make_goldens.py and
compare.py. Needs PyTorch (1.13 or later) and numpy; never needed by the build or by the tests.

Data and sampled positions come from an integer hash that tests/e2e/Hash.h computes too:
  mix(x)          the finalizer of MurmurHash3 (Appleby 2011): 32 bits to 32 bits
  word(stream, i) mix(i + mix(stream))
Streams: 0x1000 + b data of batch b, 0x2000 + b its labels, 0x3000 + k the k-th projection, 0x4000 sampled positions.
"""

import json
import math
import struct

import numpy
import torch

import transformer_models

DATA, LABELS, PROJECTIONS, SAMPLES = 0x1000, 0x2000, 0x3000, 0x4000


def mix(x):
    x = numpy.asarray(x, dtype=numpy.uint32)
    with numpy.errstate(over="ignore"):
        x = (x ^ (x >> numpy.uint32(16))) * numpy.uint32(0x85EBCA6B)
        x = (x ^ (x >> numpy.uint32(13))) * numpy.uint32(0xC2B2AE35)
        return x ^ (x >> numpy.uint32(16))


def words(stream, count):
    with numpy.errstate(over="ignore"):
        return mix(numpy.arange(count, dtype=numpy.uint32) + mix(stream))


def fractions(stream, shape):
    """In [0, 1), multiples of 2^-24: exact in float32."""
    return ((words(stream, math.prod(shape)) >> numpy.uint32(8)) * 2.0**-24).reshape(shape)


# --- Initial parameters: runtime/base/Philox.h ---


def philox(counter, key):
    c = [numpy.asarray(word, dtype=numpy.uint64) for word in counter]
    k = [numpy.uint64(word) for word in key]
    low = numpy.uint64(0xFFFFFFFF)
    high = numpy.uint64(32)
    with numpy.errstate(over="ignore"):
        for _ in range(10):
            p0, p1 = numpy.uint64(0xD2511F53) * c[0], numpy.uint64(0xCD9E8D57) * c[2]
            c = [(p1 >> high) ^ c[1] ^ k[0], p1 & low, (p0 >> high) ^ c[3] ^ k[1], p0 & low]
            k = [(k[0] + numpy.uint64(0x9E3779B9)) & low, (k[1] + numpy.uint64(0xBB67AE85)) & low]
    return c


def uniform_pairs(seed, stream, count):
    """Two arrays of ceil(count / 2) doubles in [0, 1): from words (0, 1) and from words (2, 3) of each block."""
    blocks = numpy.arange((count + 1) // 2, dtype=numpy.uint64)
    zero = numpy.zeros_like(blocks)
    c = philox([blocks, zero, zero + numpy.uint64(stream), zero], [seed & 0xFFFFFFFF, seed >> 32])

    def uniform(low_word, high_word):
        return (((high_word << numpy.uint64(32)) | low_word) >> numpy.uint64(11)).astype(numpy.float64) * 2.0**-53

    return uniform(c[0], c[1]), uniform(c[2], c[3])


def draw(recipe, seed, stream, count):
    """A parameter's start in float64, before it is rounded to float32."""
    kind, a, b = recipe
    if kind == "constant":
        return numpy.full(count, a)
    u, v = uniform_pairs(seed, stream, count)
    if kind == "uniform":
        return numpy.stack([a + (b - a) * u, a + (b - a) * v], 1).reshape(-1)[:count]
    # Python's math is the C library, as in the runtime; numpy has its own.
    radius = [math.sqrt(-2.0 * math.log(1.0 - x)) for x in u.tolist()]
    angle = [2.0 * math.pi * x for x in v.tolist()]
    normal = [f for r, t in zip(radius, angle) for f in (r * math.cos(t), r * math.sin(t))]
    return a + b * numpy.array(normal[:count])


def require_robust_rounding(name, drawn):
    """Refuses values so near a tie of float32 rounding that another C library (an error of 8 units in the last place of
    a double) could start from another float32."""
    rounded = drawn.astype(numpy.float32)
    nearby = drawn * (2.0**-49)
    if ((drawn + nearby).astype(numpy.float32) != rounded).any() or ((drawn - nearby).astype(numpy.float32) != rounded).any():
        raise SystemExit(f"{name}: a start lies on a rounding boundary of float32; choose another seed")
    return rounded


# --- Models: (ordered recipes of the parameters, forward) with the parameter names of frontend/models ---


def mlp(settings):
    sizes = [settings["inputs"], *settings["hidden"], settings["classes"]]
    recipes = {}
    for i, (inputs, outputs) in enumerate(zip(sizes, sizes[1:])):
        bound = 1 / math.sqrt(inputs)
        recipes[f"layers.{i}.weight"] = ((outputs, inputs), ("uniform", -bound, bound))
        recipes[f"layers.{i}.bias"] = ((outputs,), ("uniform", -bound, bound))

    def forward(p, x):
        for i in range(len(sizes) - 1):
            x = torch.nn.functional.linear(x, p[f"layers.{i}.weight"], p[f"layers.{i}.bias"])
            if i < len(sizes) - 2:
                x = torch.relu(x)
        return x

    return recipes, forward


def regressor(settings):
    """The graph of tests/e2e/Regressor.h."""
    recipes = {
        "fc.weight": ((16, 8), ("normal", 0.0, 0.25)),
        "fc.bias": ((16,), ("constant", 0.0, 0.0)),
        "out.weight": ((3, 16), ("normal", 0.0, 0.25)),
        "out.bias": ((3,), ("constant", 0.0, 0.0)),
    }

    def forward(p, x):
        x = torch.tanh(torch.nn.functional.linear(x, p["fc.weight"], p["fc.bias"]))
        return torch.nn.functional.linear(x, p["out.weight"], p["out.bias"])

    return recipes, forward


def gpt(settings):
    layers, heads, width = settings["layers"], settings["heads"], settings["width"]
    context, vocabulary = settings["context"], settings["vocab"]
    deviation = 0.02
    residual = deviation / math.sqrt(2.0 * layers)
    zeros, ones = ("constant", 0.0, 0.0), ("constant", 1.0, 0.0)
    recipes = {
        "wte.weight": ((vocabulary, width), ("normal", 0.0, deviation)),
        "wpe.weight": ((context, width), ("normal", 0.0, deviation)),
    }

    def linear(name, outputs, inputs, spread):
        recipes[name + ".weight"] = ((outputs, inputs), ("normal", 0.0, spread))
        recipes[name + ".bias"] = ((outputs,), zeros)

    def norm(name):
        recipes[name + ".weight"] = ((width,), ones)
        recipes[name + ".bias"] = ((width,), zeros)

    for i in range(layers):
        block = f"blocks.{i}"
        norm(block + ".ln1")
        linear(block + ".attn.qkv", 3 * width, width, deviation)
        linear(block + ".attn.proj", width, width, residual)
        norm(block + ".ln2")
        linear(block + ".mlp.fc", 4 * width, width, deviation)
        linear(block + ".mlp.proj", width, 4 * width, residual)
    norm("lnf")

    def forward(p, tokens):
        functional = torch.nn.functional

        def linear(name, x):
            return functional.linear(x, p[name + ".weight"], p[name + ".bias"])

        def norm(name, x):
            return functional.layer_norm(x, (width,), p[name + ".weight"], p[name + ".bias"], 1e-5)

        def attention(name, x):
            q, k, v = (
                part.reshape(*part.shape[:2], heads, width // heads).transpose(1, 2)
                for part in linear(name + ".qkv", x).chunk(3, dim=-1)
            )
            scores = q @ k.transpose(-1, -2) / math.sqrt(width / heads)
            future = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
            mixed = scores.masked_fill(future, -math.inf).softmax(-1) @ v
            return linear(name + ".proj", mixed.transpose(1, 2).reshape(x.shape))

        x = p["wte.weight"][tokens] + p["wpe.weight"]
        for i in range(layers):
            block = f"blocks.{i}"
            x = x + attention(block + ".attn", norm(block + ".ln1", x))
            hidden = functional.gelu(linear(block + ".mlp.fc", norm(block + ".ln2", x)), approximate="tanh")
            x = x + linear(block + ".mlp.proj", hidden)
        return norm("lnf", x) @ p["wte.weight"].T

    return recipes, forward


class Planes:
    """Recipes and forward of a model over images, by one function `network(layers, x)` that is run for both: first with
    the shapes of x only, to collect the recipes, then with tensors."""

    def __init__(self, settings, network):
        self.network, self.recipes, self.parameters = network, {}, None
        shape = (settings["batch"], settings["channels"], settings["image"], settings["image"])
        network(self, torch.zeros(shape, dtype=torch.float64))

    def forward(self, parameters, x):
        self.parameters = parameters
        return self.network(self, x)

    def value(self, name, shape, recipe):
        if self.parameters is None:
            self.recipes[name] = (shape, recipe)
            return torch.ones(shape, dtype=torch.float64)
        return self.parameters[name]

    def bias(self, name, count, recipe):
        return self.value(name + ".bias", (count,), recipe) if recipe else None

    def convolution(self, name, x, filters, size, recipe, bias=None, stride=1, padding=0):
        weight = self.value(name + ".weight", (filters, x.shape[1], size, size), recipe)
        return torch.nn.functional.conv2d(x, weight, self.bias(name, filters, bias), stride, padding)

    def transposed(self, name, x, filters, size, recipe, bias, stride):
        weight = self.value(name + ".weight", (x.shape[1], filters, size, size), recipe)
        return torch.nn.functional.conv_transpose2d(x, weight, self.bias(name, filters, bias), stride)

    def linear(self, name, x, outputs, recipe):
        weight = self.value(name + ".weight", (outputs, x.shape[1]), recipe)
        return torch.nn.functional.linear(x, weight, self.bias(name, outputs, recipe))

    def batch_norm(self, name, x):
        channels = (x.shape[1],)
        ones, zeros = ("constant", 1.0, 0.0), ("constant", 0.0, 0.0)
        weight, bias = self.value(name + ".weight", channels, ones), self.value(name + ".bias", channels, zeros)
        mean, variance = self.value(name + ".running_mean", channels, zeros), self.value(name + ".running_var", channels, ones)
        return torch.nn.functional.batch_norm(x, mean, variance, weight, bias, True, 0.1, 1e-5)


def bounded(inputs):
    return ("uniform", -1 / math.sqrt(inputs), 1 / math.sqrt(inputs))


def lenet(settings):
    width = settings["width"]

    def network(layers, x):
        pool = torch.nn.functional.max_pool2d
        for name, filters in (("conv1", width), ("conv2", 2 * width)):
            recipe = bounded(x.shape[1] * 9)
            x = pool(torch.relu(layers.convolution(name, x, filters, 3, recipe, recipe, padding=1)), 2)
        x = x.flatten(1)
        x = torch.relu(layers.linear("fc1", x, 4 * width, bounded(x.shape[1])))
        return layers.linear("fc2", x, settings["classes"], bounded(x.shape[1]))

    planes = Planes(settings, network)
    return planes.recipes, planes.forward


def resnet(settings):
    width = settings["width"]
    blocks, is_bottleneck = {"resnet18": ((2, 2, 2, 2), False), "resnet50": ((3, 4, 6, 3), True)}[settings["model"]]

    def network(layers, x):
        def normalized(convolution, norm, x, filters, size, stride=1, padding=0):
            recipe = ("normal", 0.0, math.sqrt(2 / (filters * size * size)))
            return layers.batch_norm(norm, layers.convolution(convolution, x, filters, size, recipe, None, stride, padding))

        def block(name, x, width, stride):
            outputs = 4 * width if is_bottleneck else width
            if is_bottleneck:
                y = torch.relu(normalized(name + "conv1", name + "bn1", x, width, 1))
                y = torch.relu(normalized(name + "conv2", name + "bn2", y, width, 3, stride, 1))
                y = normalized(name + "conv3", name + "bn3", y, outputs, 1)
            else:
                y = torch.relu(normalized(name + "conv1", name + "bn1", x, width, 3, stride, 1))
                y = normalized(name + "conv2", name + "bn2", y, width, 3, 1, 1)
            if stride != 1 or x.shape[1] != outputs:
                x = normalized(name + "downsample.0", name + "downsample.1", x, outputs, 1, stride)
            return torch.relu(y + x)

        x = torch.relu(normalized("conv1", "bn1", x, width, 7, 2, 3))
        x = torch.nn.functional.max_pool2d(x, 3, 2, 1)
        for stage, count in enumerate(blocks):
            for i in range(count):
                x = block(f"layer{stage + 1}.{i}.", x, width << stage, 2 if stage > 0 and i == 0 else 1)
        x = x.mean((2, 3))
        return layers.linear("fc", x, settings["classes"], bounded(x.shape[1]))

    planes = Planes(settings, network)
    return planes.recipes, planes.forward


def unet(settings):
    width, levels = settings["width"], 4

    def network(layers, x):
        def twice(name, x, filters):
            for i in range(2):
                y = layers.convolution(f"{name}.conv{i}", x, filters, 3, bounded(x.shape[1] * 9), padding=1)
                x = torch.relu(layers.batch_norm(f"{name}.norm{i}", y))
            return x

        skips = []
        for level in range(levels):
            skips.append(twice(f"down{level}", x, width << level))
            x = torch.nn.functional.max_pool2d(skips[-1], 2)
        x = twice("bottom", x, width << levels)
        for level in reversed(range(levels)):
            filters = width << level
            larger = layers.transposed(f"up{level}.rise", x, filters, 2, bounded(filters * 4), bounded(filters * 4), 2)
            x = twice(f"up{level}.join", torch.cat([skips[level], larger], 1), filters)
        recipe = bounded(x.shape[1])
        return layers.convolution("classes", x, settings["classes"], 1, recipe, recipe).permute(0, 2, 3, 1)

    planes = Planes(settings, network)
    return planes.recipes, planes.forward


MODELS = {
    "mlp": mlp,
    "gpt": gpt,
    "regressor": regressor,
    "lenet": lenet,
    "resnet18": resnet,
    "resnet50": resnet,
    "unet": unet,
    **transformer_models.MODELS,
}


def is_statistic(name):
    """Updated by the forward pass, not by the optimizer."""
    return name.endswith((".running_mean", ".running_var"))


# --- Data ---


def hashed_batch(settings, number):
    """(data, labels) of a batch, float64 or int64. Every fifth label of a language model, on average, is ignored."""
    batch, model = settings["batch"], settings["model"]
    data, labels = DATA + number, LABELS + number
    if "classes" in settings:
        side, channels = settings.get("image"), settings.get("channels", 3)
        shape = (channels, side, side) if side else (settings["inputs"],)
        count = batch * side * side if model == "unet" else batch
        return fractions(data, (batch, *shape)), (words(labels, count) % settings["classes"]).astype(numpy.int64)
    if model == "regressor":
        return fractions(data, (batch, 8)) * 2 - 1, fractions(labels, (batch, 3)) * 2 - 1
    count = batch * settings["context"]
    tokens = (words(data, count) % settings["vocab"]).astype(numpy.int64)
    drawn = words(labels, count)
    targets = numpy.where(drawn % 5 == 0, -100, ((drawn >> 8) % settings["vocab"]).astype(numpy.int64))
    return tokens.reshape(batch, -1), targets.reshape(batch, -1)


# --- Training ---


def learning_rate(h, step):
    """LearningRateOp of ir/tape/Optimizer.td; schedules by number, as runtime/base/Hyperparameters.h has them."""
    if step < h["warmup_steps"]:
        return h["lr"] * ((step + 1) / max(h["warmup_steps"], 1))
    progress = min(max((step - h["warmup_steps"]) / max(h["total_steps"] - h["warmup_steps"], 1), 0), 1)
    floor = h["min_lr_ratio"]
    ratios = {0: 1, 1: 1 - (1 - floor) * progress, 2: floor + (1 - floor) * (0.5 * (1 + math.cos(math.pi * progress)))}
    return h["lr"] * ratios[h["schedule"]]


def make_optimizer(name, parameters, h):
    decay = h["weight_decay"]
    if name in ("adamw", "adam"):
        kind = torch.optim.AdamW if name == "adamw" else torch.optim.Adam
        return kind(parameters, lr=h["lr"], betas=(h["beta1"], h["beta2"]), eps=h["epsilon"], weight_decay=decay)
    momentum = 0 if name == "sgd" else h["momentum"]
    return torch.optim.SGD(parameters, lr=h["lr"], momentum=momentum, nesterov=name == "nesterov", weight_decay=decay)


def loss_of(settings, prediction, labels):
    if settings["model"] == "regressor":
        return torch.nn.functional.mse_loss(prediction, labels)
    return torch.nn.functional.cross_entropy(prediction.flatten(0, -2), labels.flatten(), ignore_index=-100,
                                             label_smoothing=settings.get("label_smoothing", 0.0))


def initial_parameters(settings):
    """Name -> float32 array, in the order of the model."""
    recipes, _ = MODELS[settings["model"]](settings)
    seed = settings["hyperparameters"]["seed"]
    return {
        name: require_robust_rounding(name, draw(recipe, seed, stream, math.prod(shape))).reshape(shape)
        for stream, (name, (shape, recipe)) in enumerate(recipes.items())
    }


def train(settings, initial, batches, steps, dtype, autocast=None):
    """Trains `steps` steps; batches(step) gives (data, labels); `autocast`: the low precision of the forward pass. Returns (losses, gradient norms, first gradients,
    last running statistics)."""
    torch.use_deterministic_algorithms(True)
    _, forward = MODELS[settings["model"]](settings)
    h = settings["hyperparameters"]
    parameters = {name: torch.tensor(value, dtype=dtype) for name, value in initial.items()}
    untrained = tuple(settings["frozen"])
    trained = {name: p.requires_grad_() for name, p in parameters.items() if not name.startswith(untrained) and not is_statistic(name)}
    optimizer = make_optimizer(settings["optimizer"], list(trained.values()), h)
    losses, norms, first = [], [], None
    for step in range(steps):
        data, labels = (torch.from_numpy(x).to(dtype) if x.dtype == numpy.float64 else torch.from_numpy(x) for x in batches(step))
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=autocast, enabled=autocast is not None):
            loss = loss_of(settings, forward(parameters, data), labels)
        loss.backward()
        first = first or {name: p.grad.clone().numpy() for name, p in trained.items()}
        norm = torch.nn.utils.clip_grad_norm_(list(trained.values()), h["clip"] or math.inf)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(h, step)
        optimizer.step()
        losses.append(loss.item())
        norms.append(norm.item())
    statistics = {name: p.numpy() for name, p in parameters.items() if is_statistic(name)}
    return losses, norms, first, statistics


# --- safetensors: 8 bytes length of the header, the header in JSON, the bytes ---

TYPES = {"F32": numpy.dtype("<f4"), "F64": numpy.dtype("<f8")}


def write_safetensors(path, tensors):
    header, offset = {}, 0
    for name, value in tensors.items():
        kind = next(kind for kind, dtype in TYPES.items() if dtype == value.dtype)
        header[name] = {"dtype": kind, "shape": value.shape, "data_offsets": [offset, offset + value.nbytes]}
        offset += value.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(value.tobytes() for value in tensors.values()))


def read_safetensors(path):
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    header.pop("__metadata__", None)
    return {
        name: numpy.frombuffer(data[slice(*entry["data_offsets"])], TYPES[entry["dtype"]]).reshape(entry["shape"])
        for name, entry in header.items()
    }
