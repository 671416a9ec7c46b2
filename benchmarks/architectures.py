"""The model architectures that coverage is measured on: small, with random weights, by family.

In: nothing. Out: ``ARCHITECTURES``; architecture.py makes the models. Sizes are those of a test and
no checkpoint: two layers, 64 wide, a vocabulary of 500. What an architecture does is the same.
"""

from __future__ import annotations

from typing import Any

from benchmarks.architecture import TOKENS, VOCABULARY, Architecture

FAMILIES = (
    "encoder",
    "decoder",
    "mixture of experts",
    "encoder-decoder",
    "vision",
    "image and text",
    "speech",
    "state space and others",
    "timm",
)
_SMALL: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_CHAIN: dict[str, Any] = {**_SMALL, "num_key_value_heads": 2, "head_dim": 16, "use_cache": False}
_EXPERTS: dict[str, Any] = {
    **_CHAIN,
    "num_experts": 4,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
}
_PAIR: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "d_model": 64,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 128,
    "decoder_ffn_dim": 128,
    "max_position_embeddings": 64,
    "use_cache": False,
}
_T5: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "d_model": 64,
    "d_kv": 16,
    "d_ff": 128,
    "num_layers": 2,
    "num_decoder_layers": 2,
    "num_heads": 4,
    "use_cache": False,
}
_PATCHES: dict[str, Any] = {
    "image_size": 32,
    "patch_size": 8,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
}
_WAVES: dict[str, Any] = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "conv_dim": (32, 32, 32),
    "conv_kernel": (10, 3, 3),
    "conv_stride": (5, 2, 2),
    "num_feat_extract_layers": 3,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4,
}


def _encoder(name: str, **config: Any) -> Architecture:
    return Architecture(name, "encoder", "masked tokens", {**_SMALL, **config})


def _decoder(name: str, **config: Any) -> Architecture:
    return Architecture(name, "decoder", "tokens", {**_CHAIN, **config}, "AutoModelForCausalLM")


def _experts(name: str, **config: Any) -> Architecture:
    config = {**_EXPERTS, **config}
    return Architecture(name, "mixture of experts", "tokens", config, "AutoModelForCausalLM")


def _two(name: str, **config: Any) -> Architecture:
    return Architecture(name, "encoder-decoder", "two token sequences", {**_PAIR, **config})


def _vision(name: str, inputs: str = "image 64", **config: Any) -> Architecture:
    return Architecture(name, "vision", inputs, config)


def _patches(name: str, **config: Any) -> Architecture:
    return Architecture(name, "vision", "image 32", {**_PATCHES, **config})


def _speech(name: str, inputs: str = "wave", **config: Any) -> Architecture:
    return Architecture(name, "speech", inputs, config)


def _other(name: str, **config: Any) -> Architecture:
    config = {**_CHAIN, **config}
    return Architecture(name, "state space and others", "tokens", config, "AutoModelForCausalLM")


_CLIP = {
    "text_config": {**_SMALL, "projection_dim": 32},
    "vision_config": {**_PATCHES, "projection_dim": 32},
}

ARCHITECTURES: tuple[Architecture, ...] = (
    _encoder("bert"),
    _encoder("roberta", max_position_embeddings=66),
    _encoder("distilbert", dim=64, n_layers=2, n_heads=4, hidden_dim=128),
    _encoder("albert", embedding_size=32),
    _encoder("electra", embedding_size=32),
    _encoder("deberta"),
    _encoder(
        "deberta-v2",
        relative_attention=True,
        position_buckets=32,
        pos_att_type=["p2c", "c2p"],
        share_att_key=True,
        norm_rel_ebd="layer_norm",
    ),
    _encoder("mpnet"),
    Architecture(
        "funnel",
        "encoder",
        "masked tokens",
        {
            "vocab_size": VOCABULARY,
            "architectures": ["FunnelModel"],
            "block_sizes": [1, 1],
            "block_repeats": [1, 1],
            "d_model": 64,
            "n_head": 4,
            "d_head": 16,
            "d_inner": 128,
        },
    ),
    _encoder("convbert", embedding_size=64),
    _encoder("squeezebert", embedding_size=64),
    _encoder("mobilebert", embedding_size=32, intra_bottleneck_size=32, true_hidden_size=32),
    _encoder("roformer", embedding_size=64),
    _encoder("modernbert", global_attn_every_n_layers=2, local_attention=8),
    _encoder("esm", position_embedding_type="rotary", mask_token_id=4),
    _encoder("nystromformer", num_landmarks=TOKENS, segment_means_seq_len=TOKENS),
    _encoder("longformer", attention_window=8, max_position_embeddings=66),
    _encoder("big_bird", block_size=4, num_random_blocks=1),
    Architecture(
        "xlnet",
        "encoder",
        "masked tokens",
        {"vocab_size": VOCABULARY, "d_model": 64, "n_layer": 2, "n_head": 4, "d_inner": 128},
    ),
    Architecture("fnet", "encoder", "tokens", _SMALL),
    _decoder("gpt2", n_embd=64, n_layer=2, n_head=4, n_positions=64),
    _decoder(
        "gpt_neo",
        num_layers=2,
        num_heads=4,
        attention_types=[[["global", "local"], 1]],
        window_size=8,
    ),
    _decoder("gpt_neox"),
    _decoder("gptj", n_embd=64, n_layer=2, n_head=4, n_positions=64, rotary_dim=8),
    _decoder("gpt_bigcode", n_embd=64, n_layer=2, n_head=4, n_positions=64),
    _decoder("codegen", n_embd=64, n_layer=2, n_head=4, n_positions=64, rotary_dim=8),
    _decoder("llama"),
    _decoder("mistral", sliding_window=8),
    _decoder("ministral", sliding_window=8),
    _decoder("qwen2"),
    _decoder("qwen3"),
    _decoder("gemma"),
    _decoder("gemma2", query_pre_attn_scalar=16, sliding_window=8),
    _decoder("gemma3_text", query_pre_attn_scalar=16, sliding_window=8),
    _decoder("phi"),
    _decoder("phi3"),
    _decoder("opt", ffn_dim=128, word_embed_proj_dim=64),
    _decoder("bloom", n_layer=2, n_head=4),
    _decoder("mpt", d_model=64, n_heads=4, n_layers=2, max_seq_len=64, expansion_ratio=2),
    Architecture(
        "falcon",
        "decoder",
        "tokens",
        {**_SMALL, "use_cache": False, "new_decoder_architecture": True, "num_kv_heads": 2},
        "AutoModelForCausalLM",
    ),
    _decoder("stablelm"),
    _decoder("starcoder2", sliding_window=8),
    _decoder("cohere"),
    _decoder("cohere2", sliding_window=8),
    _decoder("olmo"),
    _decoder("olmo2"),
    _decoder("granite"),
    _decoder("glm"),
    _decoder("smollm3"),
    _decoder("nemotron"),
    _decoder("xglm", d_model=64, num_layers=2, attention_heads=4, ffn_dim=128),
    _experts("mixtral"),
    _experts("qwen2_moe", shared_expert_intermediate_size=64),
    _experts("qwen3_moe"),
    _experts("olmoe"),
    _experts("phimoe"),
    _experts("granitemoe"),
    _experts("gpt_oss", sliding_window=8),
    _experts(
        "deepseek_v3",
        n_routed_experts=4,
        n_group=2,
        topk_group=1,
        first_k_dense_replace=1,
        num_key_value_heads=4,
        kv_lora_rank=16,
        q_lora_rank=16,
        qk_rope_head_dim=8,
        qk_nope_head_dim=16,
        v_head_dim=16,
        head_dim=8,
    ),
    Architecture("t5", "encoder-decoder", "two token sequences", _T5),
    Architecture("mt5", "encoder-decoder", "two token sequences", _T5),
    Architecture(
        "switch_transformers",
        "encoder-decoder",
        "two token sequences",
        {**_T5, "num_sparse_encoder_layers": 1, "num_sparse_decoder_layers": 1, "num_experts": 4},
    ),
    _two("bart"),
    _two("mbart"),
    _two("marian", decoder_start_token_id=1, pad_token_id=0),
    _two("pegasus"),
    _two("m2m_100"),
    _two("blenderbot"),
    _two(
        "led",
        attention_window=8,
        max_encoder_position_embeddings=64,
        max_decoder_position_embeddings=64,
    ),
    _patches("vit"),
    _patches("deit"),
    _patches("beit"),
    _patches("dinov2"),
    _patches("dinov3_vit", num_register_tokens=2),
    _patches("clip_vision_model"),
    _patches("siglip_vision_model"),
    _patches("vit_msn"),
    _patches("yolos", image_size=[32, 32], num_detection_tokens=4),
    Architecture("videomae", "vision", "video", {**_PATCHES, "num_frames": 4, "tubelet_size": 2}),
    _vision("swin", embed_dim=16, depths=[1, 1], num_heads=[2, 4], window_size=4, image_size=64),
    _vision("swinv2", embed_dim=16, depths=[1, 1], num_heads=[2, 4], window_size=4, image_size=64),
    _vision("convnext", hidden_sizes=[16, 32], depths=[1, 1], num_stages=2),
    _vision("convnextv2", hidden_sizes=[16, 32], depths=[1, 1], num_stages=2),
    _vision("resnet", embedding_size=16, hidden_sizes=[32, 64], depths=[1, 1]),
    _vision("regnet", embedding_size=16, hidden_sizes=[32, 64], depths=[1, 1], groups_width=16),
    _vision("bit", embedding_size=32, hidden_sizes=[32, 64], depths=[1, 1], num_groups=4),
    _vision("mobilenet_v1", depth_multiplier=0.25),
    _vision("mobilenet_v2", depth_multiplier=0.25),
    _vision("efficientnet", width_coefficient=0.25, depth_coefficient=0.25, hidden_dim=320),
    _vision(
        "segformer",
        num_encoder_blocks=2,
        depths=[1, 1],
        sr_ratios=[4, 2],
        hidden_sizes=[16, 32],
        patch_sizes=[7, 3],
        strides=[4, 2],
        num_attention_heads=[1, 2],
        mlp_ratios=[2, 2],
    ),
    _vision(
        "mobilevit",
        image_size=64,
        hidden_sizes=[16, 24, 32],
        neck_hidden_sizes=[8, 8, 16, 16, 24, 32, 64],
        num_attention_heads=2,
    ),
    _vision("poolformer", hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 1, 1]),
    _vision(
        "focalnet",
        embed_dim=16,
        depths=[1, 1],
        image_size=64,
        focal_levels=[2, 2],
        focal_windows=[3, 3],
    ),
    _vision(
        "levit",
        "image 224",
        hidden_sizes=[16, 32, 48],
        depths=[1, 1, 1],
        num_attention_heads=[2, 4, 4],
        key_dim=[8, 8, 8],
    ),
    Architecture("clip", "image and text", "image and text", _CLIP),
    Architecture("siglip", "image and text", "image and text", _CLIP),
    Architecture("chinese_clip", "image and text", "image and text", _CLIP),
    _speech("wav2vec2", **_WAVES),
    _speech("hubert", **_WAVES),
    _speech("wavlm", **_WAVES),
    _speech("unispeech-sat", **_WAVES),
    _speech("sew", **_WAVES, squeeze_factor=2),
    _speech(
        "audio-spectrogram-transformer",
        "spectrogram",
        **{**_PATCHES, "max_length": 64, "num_mel_bins": 32},
    ),
    _speech(
        "encodec",
        "mono",
        num_filters=8,
        hidden_size=32,
        codebook_dim=32,
        codebook_size=32,
        upsampling_ratios=[4, 2],
        num_lstm_layers=1,
        target_bandwidths=[24.0],
    ),
    _speech(
        "whisper",
        "speech and text",
        **{
            **_PAIR,
            "max_source_positions": 32,
            "max_target_positions": 32,
            "num_mel_bins": 80,
            "decoder_start_token_id": 1,
            "pad_token_id": 0,
            "bos_token_id": 1,
            "eos_token_id": 2,
        },
    ),
    _speech(
        "speech_to_text",
        "frames and text",
        **{
            **_PAIR,
            "max_source_positions": 64,
            "max_target_positions": 32,
            "num_mel_bins": 80,
            "input_feat_per_channel": 80,
            "conv_channels": 64,
        },
    ),
    _other("mamba", state_size=8),
    _other("mamba2", num_heads=8, head_dim=16, state_size=8, n_groups=2, chunk_size=8, expand=2),
    _other("falcon_mamba", state_size=8),
    _other("rwkv", attention_hidden_size=64, context_length=64),
    _other("recurrent_gemma", lru_width=64, attention_window_size=8),
    _other(
        "jamba",
        num_experts=2,
        attn_layer_period=2,
        attn_layer_offset=1,
        mamba_d_state=8,
        mamba_dt_rank=8,
        use_mamba_kernels=False,
        expert_layer_period=2,
        expert_layer_offset=1,
    ),
    _other(
        "bamba",
        attn_layer_indices=[1],
        mamba_n_heads=8,
        mamba_d_head=16,
        mamba_n_groups=1,
        mamba_d_state=8,
        mamba_chunk_size=8,
    ),
    _other(
        "zamba2",
        mamba_d_state=8,
        n_mamba_heads=8,
        mamba_headdim=16,
        mamba_ngroups=1,
        chunk_size=8,
        layers_block_type=["mamba", "hybrid"],
        num_mem_blocks=1,
        use_mem_rope=False,
        attention_hidden_size=128,
        attention_head_dim=32,
    ),
    _other("lfm2", layer_types=["conv", "full_attention"], block_ff_dim=128),
    _other(
        "qwen3_next",
        layer_types=["linear_attention", "full_attention"],
        linear_num_key_heads=2,
        linear_num_value_heads=4,
        linear_key_head_dim=16,
        linear_value_head_dim=16,
        num_experts=4,
        num_experts_per_tok=2,
        moe_intermediate_size=32,
        shared_expert_intermediate_size=32,
    ),
    _other("ctrl", n_embd=64, n_layer=2, n_head=4, dff=128, n_positions=64),
    Architecture(
        "patchtst",
        "state space and others",
        "series",
        {
            "num_input_channels": 3,
            "context_length": 64,
            "patch_length": 8,
            "patch_stride": 8,
            "d_model": 64,
            "num_attention_heads": 4,
            "ffn_dim": 128,
            "num_hidden_layers": 2,
        },
    ),
    Architecture("vit_tiny_patch16_224", "timm", "image 224"),
    Architecture("resnet18", "timm", "image 224"),
    Architecture("mobilenetv3_small_050", "timm", "image 224"),
    Architecture("efficientnet_b0", "timm", "image 224"),
    Architecture("mixer_s32_224", "timm", "image 224"),
    Architecture("regnetx_002", "timm", "image 224"),
)


def by_name(name: str) -> Architecture:
    """Raises ValueError for a name that isn't in the list."""
    for one in ARCHITECTURES:
        if one.name == name:
            return one
    raise ValueError(f"no architecture is called {name!r}")
