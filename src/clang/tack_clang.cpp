#include "tack_clang.h"

#include <immintrin.h>
#include <pthread.h>
#include <signal.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "clang/Basic/DiagnosticOptions.h"
#include "clang/Basic/Version.h"
#include "clang/CodeGen/ModuleBuilder.h"
#include "clang/Frontend/CompilerInstance.h"
#include "clang/Frontend/CompilerInvocation.h"
#include "clang/Frontend/FrontendAction.h"
#include "clang/Frontend/TextDiagnosticPrinter.h"
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/IR/DiagnosticHandler.h"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/DiagnosticPrinter.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/VirtualFileSystem.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"

namespace {

constexpr const char* triple_name = "x86_64-unknown-linux-gnu";
constexpr const char* base_cpu = "x86-64";

// LLVM calls exit() after a fatal error unless a handler leaves by other means; it has no way to
// report one. What the throw skips leaks, and later compilations are unharmed.
struct FatalError {
    std::string message;
};
void throw_fatal_error(void*, const char* reason, bool) { throw FatalError{reason}; }
void throw_bad_alloc(void*, const char*, bool) { throw std::bad_alloc(); }

struct Host {
    const llvm::Target* target = nullptr;
    std::string tune_cpu;
    std::string problem;  // why there is no target
    std::vector<std::string> known_features;
};

const Host& host() {
    static const Host* const instance = [] {
        auto* made = new Host;
        LLVMInitializeX86TargetInfo();
        LLVMInitializeX86Target();
        LLVMInitializeX86TargetMC();
        LLVMInitializeX86AsmPrinter();
        LLVMInitializeX86AsmParser();
        llvm::install_fatal_error_handler(throw_fatal_error);
        llvm::install_bad_alloc_error_handler(throw_bad_alloc);
        const llvm::Triple triple(triple_name);
        made->target = llvm::TargetRegistry::lookupTarget(triple, made->problem);
        made->tune_cpu = llvm::sys::getHostCPUName().str();
        if (made->target) {
            const std::unique_ptr<llvm::MCSubtargetInfo> info(
                made->target->createMCSubtargetInfo(triple, base_cpu, ""));
            for (const auto& feature : info->getAllProcessorFeatures())
                made->known_features.emplace_back(feature.Key);
        }
        return made;
    }();
    return *instance;
}

// The default handler prints, and exits on an error.
struct CollectDiagnostics final : llvm::DiagnosticHandler {
    CollectDiagnostics(llvm::raw_ostream& log, bool& failed) : log_(log), failed_(failed) {}
    bool handleDiagnostics(const llvm::DiagnosticInfo& info) override {
        if (info.getSeverity() != llvm::DS_Error) return true;
        failed_ = true;
        llvm::DiagnosticPrinterRawOStream printer(log_);
        log_ << "error: ";
        info.print(printer);
        log_ << '\n';
        return true;
    }

private:
    llvm::raw_ostream& log_;
    bool& failed_;
};

// CodeGenAction would do the same, and drag in LTO and Polly.
struct EmitModule final : clang::ASTFrontendAction {
    EmitModule(llvm::LLVMContext& context, std::unique_ptr<llvm::Module>& module)
        : context_(context), module_(module) {}

protected:
    std::unique_ptr<clang::ASTConsumer> CreateASTConsumer(clang::CompilerInstance& compiler,
                                                          llvm::StringRef file) override {
        auto generator = clang::CreateLLVMCodeGen(compiler, file, context_);
        generator_ = generator.get();
        return generator;
    }
    void EndSourceFileAction() override { module_ = generator_->ReleaseModule(); }

private:
    llvm::LLVMContext& context_;
    std::unique_ptr<llvm::Module>& module_;
    clang::CodeGenerator* generator_ = nullptr;
};

std::vector<const char*> frontend_arguments(const tack_clang_request& request) {
    std::vector<const char*> arguments{
        "-triple", triple_name, "-emit-obj", "-O3", "-std=gnu17", "-x", "c", "-target-cpu",
        base_cpu, "-tune-cpu", host().tune_cpu.c_str(), "-mrelocation-model", "pic", "-pic-level",
        "2", "-mcmodel=small", "-fvisibility=hidden", "-mframe-pointer=none", "-vectorize-loops",
        "-vectorize-slp",
        // The kernel language defines what C leaves undefined: integers wrap, any memory may be
        // read as any type, and a cast to _Float16 rounds there and then.
        "-fwrapv", "-relaxed-aliasing", "-ffloat16-excess-precision=none", "-nostdsysteminc",
        "-nobuiltininc",
        // Each operator of a generated expression has parentheses: 256 would be a sum's terms.
        "-fbracket-depth", "1024"};
    if (request.fast_math) {
        arguments.insert(arguments.end(), {"-ffp-contract=fast", "-mreassociate",
                                           "-freciprocal-math", "-fno-signed-zeros"});
    } else {
        arguments.push_back("-ffp-contract=off");
    }
    for (size_t i = 0; i < request.feature_count; ++i) {
        arguments.push_back("-target-feature");
        arguments.push_back(request.features[i]);
    }
    arguments.push_back(request.name);
    return arguments;
}

// LLVM prints the names that it does not know on stderr and goes on without them.
bool check_features(const tack_clang_request& request, llvm::raw_ostream& log) {
    bool good = true;
    for (size_t i = 0; i < request.feature_count; ++i) {
        const llvm::StringRef feature = request.features[i];
        if (feature.size() < 2 || (feature[0] != '+' && feature[0] != '-') ||
            !llvm::is_contained(host().known_features, feature.drop_front().str())) {
            log << "error: unknown target feature '" << feature << "'\n";
            good = false;
        }
    }
    return good;
}

std::unique_ptr<llvm::Module> parse(const tack_clang_request& request, llvm::LLVMContext& context,
                                    llvm::raw_ostream& log) {
    clang::DiagnosticOptions diagnostic_options;
    clang::TextDiagnosticPrinter printer(log, diagnostic_options);
    // No file is ever read: the source is self-contained.
    const auto files = llvm::makeIntrusiveRefCnt<llvm::vfs::InMemoryFileSystem>();

    auto invocation = std::make_shared<clang::CompilerInvocation>();
    const auto argument_diagnostics = clang::CompilerInstance::createDiagnostics(
        *files, diagnostic_options, &printer, /*ShouldOwnClient=*/false);
    if (!clang::CompilerInvocation::CreateFromArgs(*invocation, frontend_arguments(request),
                                                   *argument_diagnostics))
        return nullptr;

    const auto buffer = llvm::MemoryBuffer::getMemBufferCopy(
        llvm::StringRef(request.source, request.source_size), request.name);
    auto& inputs = invocation->getFrontendOpts().Inputs;
    inputs.assign(1, clang::FrontendInputFile(buffer->getMemBufferRef(),
                                              clang::InputKind(clang::Language::C)));

    clang::CompilerInstance compiler(std::move(invocation));
    compiler.setVirtualFileSystem(files);
    compiler.createDiagnostics(&printer, /*ShouldOwnClient=*/false);
    compiler.setVerboseOutputStream(llvm::nulls());
    std::unique_ptr<llvm::Module> module;
    EmitModule action(context, module);
    return compiler.ExecuteAction(action) ? std::move(module) : nullptr;
}

llvm::TargetLibraryInfoImpl library_info(const tack_clang_request& request) {
    llvm::TargetLibraryInfoImpl info((llvm::Triple(triple_name)));
    std::vector<llvm::VecDesc> functions;
    for (size_t i = 0; i < request.vector_function_count; ++i) {
        const auto& function = request.vector_functions[i];
        functions.emplace_back(function.scalar, function.vector,
                               llvm::ElementCount::getFixed(function.width), /*Masked=*/false,
                               function.prefix, std::nullopt);
    }
    info.addVectorizableFunctions(functions);
    return info;
}

void optimize(llvm::Module& module, llvm::TargetMachine& machine,
              const llvm::TargetLibraryInfoImpl& library) {
    llvm::PipelineTuningOptions tuning;
    tuning.LoopVectorization = true;
    tuning.SLPVectorization = true;
    llvm::PassBuilder builder(&machine, tuning);
    llvm::LoopAnalysisManager loops;
    llvm::FunctionAnalysisManager functions;
    llvm::CGSCCAnalysisManager sccs;
    llvm::ModuleAnalysisManager modules;
    functions.registerPass([&] { return llvm::TargetLibraryAnalysis(library); });
    builder.registerModuleAnalyses(modules);
    builder.registerCGSCCAnalyses(sccs);
    builder.registerFunctionAnalyses(functions);
    builder.registerLoopAnalyses(loops);
    builder.crossRegisterProxies(loops, functions, sccs, modules);
    builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O3).run(module, modules);
}

bool compile(const tack_clang_request& request, llvm::SmallVectorImpl<char>& output,
             llvm::raw_ostream& log) {
    if (!host().target) {
        log << "error: " << host().problem << '\n';
        return false;
    }
    if (!check_features(request, log)) return false;

    bool failed = false;
    llvm::LLVMContext context;
    context.setDiagnosticHandler(std::make_unique<CollectDiagnostics>(log, failed));
    const std::unique_ptr<llvm::Module> module = parse(request, context, log);
    if (!module || failed) return false;

    std::string features;
    for (size_t i = 0; i < request.feature_count; ++i)
        features.append(i ? "," : "").append(request.features[i]);
    llvm::TargetOptions options;
    options.UseInitArray = true;  // so that the loader knows a constructor when it sees one
    const std::unique_ptr<llvm::TargetMachine> machine(host().target->createTargetMachine(
        llvm::Triple(triple_name), base_cpu, features, options, llvm::Reloc::PIC_,
        llvm::CodeModel::Small, llvm::CodeGenOptLevel::Aggressive));
    const llvm::TargetLibraryInfoImpl library = library_info(request);
    optimize(*module, *machine, library);

    llvm::legacy::PassManager passes;
    passes.add(new llvm::TargetLibraryInfoWrapperPass(library));
    llvm::raw_svector_ostream stream(output);
    const auto kind = request.output == TACK_CLANG_ASSEMBLY ? llvm::CodeGenFileType::AssemblyFile
                                                            : llvm::CodeGenFileType::ObjectFile;
    if (machine->addPassesToEmitFile(passes, stream, nullptr, kind)) {
        log << "error: the target cannot emit this kind of output\n";
        return false;
    }
    passes.run(*module);
    return !failed;
}

// Results cross a C interface, so they are malloc's; null where memory is short.
char* duplicate(const char* data, size_t size) {
    auto* copy = static_cast<char*>(std::malloc(size + 1));
    if (!copy) return nullptr;
    std::memcpy(copy, data, size);
    copy[size] = '\0';
    return copy;
}

bool compile_to_result(const tack_clang_request& request, tack_clang_result& result) noexcept {
    try {
        std::string log;
        llvm::SmallVector<char, 0> output;
        bool good = false;
        try {
            llvm::raw_string_ostream stream(log);
            good = compile(request, output, stream);
        } catch (const FatalError& error) {
            log += "error: " + error.message + "\n";
        }
        if (!log.empty()) result.log = duplicate(log.data(), log.size());
        if (!good) return false;
        result.size = output.size();
        result.data = duplicate(output.data(), output.size());
        if (result.data) return true;
    } catch (...) {
    }
    constexpr char out_of_memory[] = "error: the compiler ran out of memory\n";
    std::free(result.log);
    result = {nullptr, 0, duplicate(out_of_memory, sizeof out_of_memory - 1)};
    return false;
}

// Runs `body`, which must not throw, on a thread of its own. Clang recurses with the nesting of
// the source: the caller's stack may be too small for that, and its floating point mode is not to
// decide what constants fold to.
template <class Body>
void run_apart(Body body) {
    constexpr size_t stack_size = size_t{16} << 20;  // twice what the deepest nesting takes
    const auto start = [](void* argument) -> void* {
        constexpr unsigned default_mode = 0x1f80;  // round to nearest, keep denormals, no traps
        _mm_setcsr(default_mode);
        (*static_cast<Body*>(argument))();
        return nullptr;
    };
    // The thread inherits the mask: signals of the process go to its other threads.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, stack_size);
    pthread_t thread;
    const bool started = pthread_create(&thread, &attributes, start, &body) == 0;
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (started)
        pthread_join(thread, nullptr);
    else
        body();
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) int tack_clang_abi(void) { return TACK_CLANG_ABI; }

__attribute__((visibility("default"))) const char* tack_clang_version(void) {
    return CLANG_VERSION_STRING;
}

__attribute__((visibility("default"))) int tack_clang_compile(const tack_clang_request* request,
                                                              tack_clang_result* result) {
    *result = {};
    bool good = false;
    run_apart([&] { good = compile_to_result(*request, *result); });
    return good ? 0 : 1;
}

__attribute__((visibility("default"))) void tack_clang_free(tack_clang_result* result) {
    std::free(result->data);
    std::free(result->log);
    *result = {};
}

}  // extern "C"
