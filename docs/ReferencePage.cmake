# Makes a page of the reference readable: a title, no noise, and what mlir-tblgen's Markdown gets wrong.
# Arguments: title, source (the TableGen file, as text), input, output.
file(READ ${input} text)

function(replace pattern by)
  string(REGEX REPLACE "${pattern}" "${by}" text "${text}")
  set(text "${text}" PARENT_SCOPE)
endfunction()

replace("^<!--[^\n]*-->\n" "")
replace("^# [^\n]*\n+" "") # its own title
replace("\\[TOC\\]\n" "")
replace("NOTE: This method \\*must\\* be implemented by the user.\n" "") # it says so of methods with a default, too

# A description that ends in its first line swallows the line break behind it; a second line keeps its indentation.
replace("([^\n#])(##+ )" "\\1\n\n\\2")
replace("\n    +" "\n")
replace("([^\n])\n(Traits|Interfaces|###)" "\\1\n\n\\2")

# Summaries are plain sentences: emphasis would eat their underscores and stars.
replace("\n_([^\n]*)<([a-z]+)>([^\n]*)_\n" "\n_\\1\\\\<\\2>\\3_\n")
replace("\n_([^\n]+)_\n" "\n\\1\n")

replace("([A-Za-z0-9)])[*]([A-Za-z0-9(])" "\\1\\\\*\\2") # a product is no emphasis

# What every op of the dialect is.
replace("`(AlwaysSpeculatableImplTrait|ConditionallySpeculatable|InferTypeOpAdaptor|NoMemoryEffect \\(MemoryEffectOpInterface\\))`(, )?" "")
replace("Effects: `MemoryEffects::Effect{}`\n" "")
replace("\nTraits: *\n" "\n")
replace(", *\n" "\n")

# Element types in one word.
replace("32-bit float or 64-bit float or bfloat16 type or 16-bit float or 1-bit signless integer or 32-bit signless integer or 64-bit signless integer values" "any element type")
replace("32-bit float or 64-bit float or bfloat16 type or 16-bit float values" "floats")
replace("statically shaped tensor" "tensor")
replace("\n\n\n+" "\n\n")

file(WRITE ${output} "# ${title}\n\nGenerated from `${source}`.\n\n${text}")
